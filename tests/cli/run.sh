#!/usr/bin/env bash
# The README's C example, built as a user would: `make install`, then cc with pkg-config's flags. tests/cli/run.sh BUILD
set -euo pipefail
cd "$(dirname "$0")/../.."

build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

scripts/install "$build" "" "$work/prefix" >/dev/null
"$build/nvfp4-router" sample --preset deepseek-v4-flash --tokens 1 --out "$work/sample" >/dev/null
sed -n '/^```c$/,/^```$/p' README.md | sed '1d;$d' >"$work/example.c"
grep -q nvfp4r_route "$work/example.c" # an example was found at all
read -ra flags <<<"$(PKG_CONFIG_PATH=$work/prefix/lib/pkgconfig pkg-config --cflags --libs nvfp4router)"
cc -std=c99 -Wall -Wextra -Wpedantic -Werror "$work/example.c" -o "$work/example" "${flags[@]}"
"$work/example" "$work/sample" >"$work/out"
# A line for the device, then four tokens of six experts each.
[ "$(wc -l <"$work/out")" = 5 ] || { cat "$work/out"; exit 1; }
[ "$(tail -n +2 "$work/out" | grep -oE '[0-9]+ \([0-9.]+\)' | wc -l)" = 24 ] || { cat "$work/out"; exit 1; }
echo "README's C example: ok"
