#!/usr/bin/env bash
# Compiles the core for 64-bit ARM and runs the self-test of its kernels under qemu. Not part of CI: it takes minutes.
#   tools/check_arm.sh              needs an environment with cmeel-eigen and nanobind (pip install cmeel-eigen nanobind)
#   tools/check_arm.sh --host       the same with this machine's own compiler, without qemu
set -euo pipefail
cd "$(dirname "$0")/.."

compiler=aarch64-linux-gnu-g++ run="qemu-aarch64 -L /usr/aarch64-linux-gnu" flags=()
if [ "${1:-}" = --host ]; then
  compiler=${CXX:-c++} run="" flags=(-march=native)
fi
command -v "$compiler" > /dev/null || { echo "No $compiler: sudo apt install g++-aarch64-linux-gnu"; exit 1; }
[ -z "$run" ] || command -v qemu-aarch64 > /dev/null || { echo "No qemu-aarch64: sudo apt install qemu-user"; exit 1; }
python=${PYTHON:-python3}
includes=$("$python" - << 'PYTHON' || { echo "No Eigen or nanobind: pip install cmeel-eigen nanobind"; exit 1; }
import pathlib, sys, sysconfig, nanobind
eigen = next(p for d in sys.path for p in pathlib.Path(d).glob("cmeel.prefix/include/eigen3"))
print(f"-isystem {eigen} -isystem {nanobind.include_dir()} -isystem {sysconfig.get_path('include')}")
PYTHON
)

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
build() { "$compiler" -std=c++20 -fno-math-errno -fno-trapping-math -ffp-contract=fast -Wall -Wextra -Wno-psabi -Icore $includes "${flags[@]}" "$@"; }

echo "Self-test of the kernels"
build -O2 core/tests/kernels_test.cpp core/engine/fronts.cpp -o "$out/kernels_test"
$run "$out/kernels_test"

for file in core/*/*.cpp; do
  case "$file" in core/cpu/* | core/tests/*) continue ;; esac  # the first is for x86
  echo "$file"
  build -fsyntax-only -DSUPPLE_MODULE=_core_baseline -DNB_DOMAIN=_core_baseline -DNDEBUG "$file"
done
echo "The core compiles with $compiler."
