#!/usr/bin/env bash
# The Python oracles. Usage: run.sh [BUILD]
# NumPy, ml_dtypes and safetensors come into a virtual environment that this makes (build/venv); torch, which is large, is
# used where an interpreter has it (Debian: python3-torch). What cannot be had is skipped with a line that says so.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly BUILD=${1:-build}
readonly VENV=build/venv
readonly PACKAGES="numpy>=1.26,<3 ml_dtypes>=0.4,<1 safetensors>=0.4,<1"

status=0
for python in python3 /usr/bin/python3; do
    "$python" tests/oracle/torch_gates.py "$BUILD/nvfp4-router" && status=0 || status=$?
    [ $status = 77 ] || break # 77: it has no torch
done
if [ $status = 77 ]; then
    echo "torch gates: SKIPPED, no torch here (Debian: python3-torch)"
elif [ $status != 0 ]; then
    exit 1
fi

if [ ! -e "$VENV/complete" ]; then
    # shellcheck disable=SC2086  # the list is meant to be split
    if ! python3 -m venv "$VENV" || ! "$VENV/bin/pip" install --quiet --disable-pip-version-check $PACKAGES; then
        echo "oracles: SKIPPED, no virtual environment with $PACKAGES (no network?)"
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
