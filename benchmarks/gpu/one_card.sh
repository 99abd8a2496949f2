#!/usr/bin/env bash
# Everything that only a GPU can show, unattended, as one report.
#
#   benchmarks/gpu/one_card.sh                  on one GPU, in the environment that `python` belongs to
#   DEVICE=cpu benchmarks/gpu/one_card.sh       the dry run: the same list, small, on a processor
#
# OUT (default runs/one-card) keeps each check's result as soon as it is there: the same command goes on where it
# was stopped, so that machines lent for minutes do, too. MINUTES: none begins after them. MODEL: a directory of a
# pretrained model for the checks that want one. What follows is passed on: --only NAME ..., --list.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec "${PYTHON:-python}" -m benchmarks.gpu --device "${DEVICE:-cuda}" --out "${OUT:-runs/one-card}" \
    --minutes "${MINUTES:-60}" ${MODEL:+--model "$MODEL"} "$@"
