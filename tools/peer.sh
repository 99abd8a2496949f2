#!/usr/bin/env bash
# Make the environment .venv-NAME of another project, without constraints.txt: PYTHON NAME.
# Each line of tools/peers/NAME.txt is a command of pip; the target .venv-NAME/.installed of make runs this.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=$1 name=$2
"$python" -m venv ".venv-$name"
set -f # `.[train]` is an extra and no pattern
grep -v '^#' "tools/peers/$name.txt" | while read words; do
    # shellcheck disable=SC2086 # the words of a command
    ".venv-$name/bin/python" -m pip $words --quiet --disable-pip-version-check </dev/null
done
touch ".venv-$name/.installed"
