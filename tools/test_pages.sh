#!/usr/bin/env bash
# Execute the examples and the commands of README.md and the quickstart with a virtual environment: PYTHON VENV
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for extra in test plot,train; do tools/install.sh "$1" "$2" $extra; done
"$2/bin/python" -m pytest README.md docs/quickstart.md
"$2/bin/python" -m pytest -o faulthandler_timeout=3600 -m slow tests/examples/test_commands.py
