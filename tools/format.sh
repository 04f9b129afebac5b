#!/usr/bin/env bash
# Formats core/ by .clang-format; needs clang-format (pip install clang-format==23.1.3: other versions format otherwise).
#   tools/format.sh            changes the files
#   tools/format.sh --check    names the files and lines that would change, and fails if there are any
set -euo pipefail
cd "$(dirname "$0")/.."
change=(-i)
[ "${1:-}" != --check ] || change=(--dry-run --Werror)
git ls-files -z 'core/*.cpp' 'core/*.hpp' | xargs -0 clang-format "${change[@]}"
