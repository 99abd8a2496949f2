#!/usr/bin/env bash
# Build wheel and sdist, install the wheel alone, and execute commands of the documentation with it, then the notebook:
# PYTHON VENV/bin/python
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=$1 tools=$2
rm -rf dist .venv-wheel
"$tools" -m hatchling build >/dev/null
"$tools" -m twine check --strict dist/*
"$python" -m venv .venv-wheel
PIP_CONSTRAINT=constraints.txt .venv-wheel/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
commands=$("$tools" -c 'from tests.examples.test_commands import wheel_commands; print(*wheel_commands(), sep="\n")')
PATH=$PWD/.venv-wheel/bin:$PATH
empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT
cd "$empty"
export AGENTGYM_CACHE=$empty/cache
agentgym bench quick --verify --out quick
python -c 'import gymnasium; gymnasium.make("agentgym:agentgym/ALFWorld-v0").reset(seed=1)'
while read -r command; do
    bash -c "$command" </dev/null >output 2>&1 || { cat output; echo "the wheel alone: $command" >&2; exit 1; }
done <<<"$commands"
# The notebook reads the board of a checkout from where it stands in one: here the board of the runs above.
mkdir -p docs/notebooks
cp "$OLDPWD"/docs/notebooks/results.ipynb docs/notebooks
agentgym leaderboard build quick --out benchmarks/LEADERBOARD.md
PIP_CONSTRAINT=$OLDPWD/constraints.txt python -m pip install --quiet --disable-pip-version-check \
    pandas matplotlib nbclient ipykernel
jupyter execute docs/notebooks/results.ipynb
