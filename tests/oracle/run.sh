#!/usr/bin/env bash
# The Python oracles, in a virtual environment of their own (build/venv). Usage: run.sh [BUILD]
# Skipped, with a line that says so, only where the packages cannot be had: no network and no venv yet.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly BUILD=${1:-build}
readonly VENV=build/venv
readonly PACKAGES="numpy>=1.26,<3 ml_dtypes>=0.4,<1 safetensors>=0.4,<1"

if [ ! -e "$VENV/complete" ]; then
    python3 -m venv "$VENV"
    # shellcheck disable=SC2086  # the list is meant to be split
    if ! "$VENV/bin/pip" install --quiet --disable-pip-version-check $PACKAGES; then
        echo "oracles: SKIPPED, pip could not install $PACKAGES"
        exit 0
    fi
    touch "$VENV/complete"
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$VENV/bin/python" tests/oracle/formats.py prepare "$scratch"
NVFP4R_ORACLE_DIR=$scratch "$BUILD/tests" "[.oracle]" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
"$VENV/bin/python" tests/oracle/formats.py verify "$scratch"
"$VENV/bin/python" tests/oracle/route_oracle.py "$BUILD/nvfp4-router"
