#!/usr/bin/env bash
# A C program builds against the library in BUILD, and against an installed copy by pkg-config: tests/api/run.sh BUILD
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cc -std=c99 -Wall -Wextra -Wpedantic -Werror -Ihost/include -o "$work/consumer" tests/consumer.c \
    "$build/libnvfp4router.a" -lfmt -lz -lstdc++ -ldl -lpthread -lm
"$work/consumer"

command -v pkg-config >/dev/null || { echo "pkg-config is missing: scripts/deps brings it"; exit 1; }
scripts/install "$build" "" "$work/prefix" >/dev/null
flags=$(PKG_CONFIG_PATH="$work/prefix/lib/pkgconfig" pkg-config --cflags --libs nvfp4router)
# shellcheck disable=SC2086  # flags are words
cc -std=c99 -Wall -Wextra -Wpedantic -Werror -o "$work/installed" tests/consumer.c $flags
"$work/installed"
