#!/usr/bin/env bash
# Kernels built into the library route where there is no NVRTC: tests/kernel/run.sh BUILD
set -euo pipefail
cd "$(dirname "$0")/../.."

build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$build/nvfp4-router" sample --preset deepseek-v4-flash --tokens 3 --out "$work/sample" >/dev/null
"$build/nvfp4-router" emit --preset deepseek-v4-flash --precision nvfp4 --arch 100a --tokens 3 --with-options \
    --built-in --out "$work/kernels" >/dev/null
scripts/embed embedded_kernels "$work/kernels" >"$work/kernels.cpp"
c++ -std=c++20 -Ihost -o "$work/router" "$work/kernels.cpp" "$build/obj/host/cli/main.o" "$build/obj/commands.a" \
    "$build/libnvfp4router.a" -lfmt -lz -ldl

export NVFP4R_LIBNVRTC=/nowhere/libnvrtc.so NVFP4R_CACHE_DIR=$work/cache NVFP4R_SIM_ARCH=100a
route=(route "$work/sample" --layer 3 --hidden "$work/sample/hidden.safetensors" --precision nvfp4 --device sim --check)
"$work/router" "${route[@]}" >"$work/out" || { cat "$work/out"; exit 1; }
"$work/router" doctor >"$work/doctor" || true
grep -qE '^built-in kernels +ok +1;' "$work/doctor" || { cat "$work/doctor"; exit 1; }
# The same call without them shows that nothing else could have compiled it.
! "$build/nvfp4-router" "${route[@]}" >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
grep -q '/nowhere/libnvrtc.so' "$work/out" || { cat "$work/out"; exit 1; }
echo "built-in kernels: ok"
