#!/usr/bin/env bash
# Train by a recipe on one GPU.
#
#   MODEL=models/Qwen2.5-1.5B-Instruct trainers/launch/one-gpu.sh --plan     what the GPU would hold; trains nothing
#   MODEL=models/Qwen2.5-1.5B-Instruct trainers/launch/one-gpu.sh            train, or go on where OUT has a run
#
# What follows is passed on to `agentgym train`: --seed 1, --set learner.lora_rank=32, --log wandb, ...
set -euo pipefail

RECIPE=${RECIPE:-gigpo/gigpo-alfworld}        # `agentgym recipes list` has the names
MODEL=${MODEL:-models/Qwen2.5-1.5B-Instruct}  # a model directory
OUT=${OUT:-runs/${RECIPE##*/}}
ENGINE=${ENGINE:-vllm}                        # samples responses; hf needs no vLLM
ENGINE_MEMORY=${ENGINE_MEMORY:-0.3}           # of the GPU, for vLLM
GIB=${GIB:-80}                                # memory of the GPU, for --plan

train=(--recipe "$RECIPE" --model "$MODEL" --set "rollout.engine=$ENGINE" --set "rollout.vllm_memory=$ENGINE_MEMORY")
if [ "${1:-}" = --plan ]; then
    exec agentgym train "${train[@]}" --plan 1 --device-memory "$GIB" "${@:2}"
fi
if [ -e "$OUT/config.json" ]; then
    exec agentgym train --resume "$OUT"
fi
exec agentgym train "${train[@]}" --out "$OUT" --log console --log jsonl "$@"
