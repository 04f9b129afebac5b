#!/usr/bin/env bash
# Builds the core with AddressSanitizer, UndefinedBehaviorSanitizer and the assertions of Eigen and of the standard library,
# and runs core/tests and some of tests/parity with it. Not part of CI.
#   tools/check_sanitized.sh FOLDER [TEST ...]    builds in FOLDER; TEST: files of pytest in place of the usual ones
# Needs an environment with supple's test packages, cmake, ninja, nanobind and cmeel-eigen, and doctest-dev of the system.
set -euo pipefail
cd "$(dirname "$0")/.."
folder="$1"
shift
tests=("$@")
[ $# -gt 0 ] || tests=(tests/parity/test_{spatial,passes,reduced,contact}.py)

native=ON
if [ ! -e /usr/include/doctest/doctest.h ]; then
  echo "No doctest (sudo apt install doctest-dev): core/tests are skipped"
  native=OFF
fi
cmake -G Ninja -S . -B "$folder" -DCMAKE_BUILD_TYPE=Release -DSUPPLE_SANITIZE=ON -DSUPPLE_VARIANTS=baseline \
  -DSUPPLE_NATIVE_TESTS=$native -DPython_EXECUTABLE="$(command -v python)" > /dev/null
cmake --build "$folder" > "$folder/build.log" || { cat "$folder/build.log"; exit 1; }
[ $native = OFF ] || ctest --test-dir "$folder" --output-on-failure --parallel 2 --quiet

# Python itself has no sanitizers: their libraries are loaded first. What it never frees is no leak.
mkdir -p "$folder/package"
cp -r src/supple "$folder/package"
cmake --install "$folder" --prefix "$folder/package" > /dev/null
compiler="${CXX:-c++}"
export LD_PRELOAD="$($compiler -print-file-name=libasan.so) $($compiler -print-file-name=libstdc++.so)"
export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 SUPPLE_CORE=baseline PYTHONPATH="$folder/package"
python -m pytest -q "${tests[@]}"
