#!/usr/bin/env bash
# Train by a recipe on several machines without a scheduler: start this script on every one of them.
#
#   HEAD=10.0.0.1 NODES=2 OUT=/shared/runs/gigpo trainers/launch/nodes-torchrun.sh --plan   what each GPU would hold
#   HEAD=10.0.0.1 NODES=2 OUT=/shared/runs/gigpo trainers/launch/nodes-torchrun.sh          train, or go on
#
# HEAD is one of the machines, which all reach at PORT; recipe, model, data and OUT are the same on all, and OUT is
# on a file system that they share. What follows is passed on to `agentgym train`. Where a machine or a process dies,
# those that are left, MIN_NODES at least, go on from the last checkpoint; without HEAD none does (docs/scale.md).
set -euo pipefail

RECIPE=${RECIPE:-gigpo/gigpo-alfworld}      # `agentgym recipes list` has the names
MODEL=${MODEL:-models/Qwen2.5-7B-Instruct}  # a model directory
OUT=${OUT:-runs/${RECIPE##*/}}
HEAD=${HEAD:-localhost}
PORT=${PORT:-29500}
NODES=${NODES:-2}
MIN_NODES=${MIN_NODES:-1}                   # that go on without the others
RESTARTS=${RESTARTS:-3}
GPUS=${GPUS:-8}                             # of a machine
JOB=${JOB:-agentgym}                        # tells runs that meet at one PORT apart
ENGINE=${ENGINE:-vllm}                      # samples responses, one engine a GPU; hf needs no vLLM
ENGINE_MEMORY=${ENGINE_MEMORY:-0.35}        # of each GPU, for vLLM
GIB=${GIB:-80}                              # memory of a GPU, for --plan

train=(--recipe "$RECIPE" --model "$MODEL" --set "rollout.engine=$ENGINE" --set "rollout.vllm_memory=$ENGINE_MEMORY")
if [ "${1:-}" = --plan ]; then
    exec agentgym train "${train[@]}" --plan $((NODES * GPUS)) --device-memory "$GIB" "${@:2}"
fi
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 # each start has a store of its own
# `--` keeps torchrun from taking --log for its own
launch=(torchrun --nnodes "$MIN_NODES:$NODES" --nproc-per-node "$GPUS" --max-restarts "$RESTARTS" --rdzv-id "$JOB"
    --rdzv-backend c10d --rdzv-endpoint "$HEAD:$PORT" -m -- agentgym train)
if [ -e "$OUT/config.json" ]; then
    exec "${launch[@]}" --resume "$OUT"
fi
exec "${launch[@]}" "${train[@]}" --out "$OUT" --log console --log jsonl "$@"
