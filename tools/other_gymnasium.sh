#!/usr/bin/env bash
# Make an environment with another Gymnasium, which goes before the one of VENV, whose other packages it uses:
# VENV/bin/python FOLDER VERSION
set -euo pipefail
tools=$1 folder=$2 version=$3
"$tools" -m venv --clear --without-pip "$folder"
"$tools" -m pip --python "$folder/bin/python" install --quiet --disable-pip-version-check --no-deps "gymnasium==$version"
packages='import sysconfig; print(sysconfig.get_path("purelib"))'
echo "import site; site.addsitedir('$("$tools" -c "$packages")')" >"$("$folder/bin/python" -c "$packages")/dev.pth"
touch "$folder/.installed"
