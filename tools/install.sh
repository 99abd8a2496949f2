#!/usr/bin/env bash
# Install an extra of agentgym-suite into a virtual environment, pinned by constraints.txt: PYTHON VENV EXTRA.
# VENV/.installed-EXTRA says that it is there; `core` is agentgym-suite alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=$1 venv=$2 extra=$3
install=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check)
export PIP_CONSTRAINT=constraints.txt

if [ ! -x "$venv/bin/python" ]; then
    if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        found="none is on the PATH"
        if [ -n "$python" ]; then found="$python is not"; fi
        echo "agentgym needs Python >= 3.11: $found; pass PYTHON=/path/to/it" >&2
        exit 1
    fi
    echo "creating $venv with $("$python" --version)"
    "$python" -m venv "$venv" || { rm -rf "$venv"; exit 1; }
fi

name="agentgym-suite[$extra]"
echo "installing ${name%"[core]"} into $venv"
case $extra in
core) "${install[@]}" -e . ;;
dev)
    # pip compiles one file after another, half of its time; compileall uses every core, and some templates are no Python
    "${install[@]}" --no-compile -e '.[dev]'
    # moviepy asks for a Pillow below 12, which writing videos does not need
    "${install[@]}" --no-deps moviepy
    "$venv/bin/python" -m compileall -qq -j 0 "$venv/lib" || true
    # what dev brings too: other targets then find it installed, and pip resolves nothing again
    touch "$venv"/.installed-{core,endpoint,plot,test,train}
    touch "$venv"/.installed-plot,site,train "$venv"/.installed-plot,train
    ;;
*) "${install[@]}" -e ".[$extra]" ;;
esac
touch "$venv/.installed-$extra"
