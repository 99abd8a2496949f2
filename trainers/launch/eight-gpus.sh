#!/usr/bin/env bash
# Train by a recipe on the eight GPUs of one machine: weights, gradients and moments are sharded, tasks are shared.
#
#   MODEL=models/Qwen2.5-7B-Instruct trainers/launch/eight-gpus.sh --plan     what each GPU would hold; trains nothing
#   MODEL=models/Qwen2.5-7B-Instruct trainers/launch/eight-gpus.sh            train, or go on where OUT has a run
#
# What follows is passed on to `agentgym train`: --seed 1, --set learner.offload=true, --log wandb, ...
set -euo pipefail

RECIPE=${RECIPE:-gigpo/gigpo-alfworld}      # `agentgym recipes list` has the names
MODEL=${MODEL:-models/Qwen2.5-7B-Instruct}  # a model directory
OUT=${OUT:-runs/${RECIPE##*/}}
GPUS=${GPUS:-8}
ENGINE=${ENGINE:-vllm}                      # samples responses, one engine a GPU; hf needs no vLLM
ENGINE_MEMORY=${ENGINE_MEMORY:-0.35}        # of each GPU, for vLLM
GIB=${GIB:-80}                              # memory of a GPU, for --plan

train=(--recipe "$RECIPE" --model "$MODEL" --set "rollout.engine=$ENGINE" --set "rollout.vllm_memory=$ENGINE_MEMORY")
if [ "${1:-}" = --plan ]; then
    exec agentgym train "${train[@]}" --plan "$GPUS" --device-memory "$GIB" "${@:2}"
fi
# `--` keeps torchrun from taking --log for its own
launch=(torchrun --standalone --nproc-per-node "$GPUS" -m -- agentgym train)
if [ -e "$OUT/config.json" ]; then
    exec "${launch[@]}" --resume "$OUT"
fi
exec "${launch[@]}" "${train[@]}" --out "$OUT" --log console --log jsonl "$@"
