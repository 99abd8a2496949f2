#!/usr/bin/env bash
# Play the suites of the committed boards again and pack the runs: AGENTGYM. Their data are at hand for every check;
# the demo's runs come from `make train-demo`, and SmolLM2's stay.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
agentgym=$1
suites=(
    quick official-sokoban official-webshop-small
    official-alfworld-seen-current official-alfworld-seen-game
    official-alfworld-unseen-current official-alfworld-unseen-game
    official-multihop-sample official-twowiki-hybrid sotopia-builtin
)
for suite in "${suites[@]}"; do "$agentgym" bench "$suite" --out benchmarks/results --no-verify; done
# SmolLM2's take an hour and a server: benchmarks/suites/smollm2*.toml, after make runs/models/smollm2/config.json
find benchmarks/runs -mindepth 1 -maxdepth 1 ! -name '*smollm2*' -exec rm -rf {} +
for suite in "${suites[@]}"; do
    "$agentgym" leaderboard pack benchmarks/results/"$suite"/* --out benchmarks/runs
done
"$agentgym" leaderboard pack runs/demo/results/demo/* --out benchmarks/runs
