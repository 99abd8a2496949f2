#!/usr/bin/env bash
#SBATCH --job-name=agentgym
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=48:00:00
#SBATCH --output=%x-%j.log
#SBATCH --requeue
#SBATCH --no-kill
#
# Train by a recipe on several machines of a Slurm cluster; torchrun starts a process a GPU on each of them.
#
#   bash trainers/launch/nodes-slurm.sh --plan                                       what each GPU would hold
#   OUT=/shared/runs/gigpo sbatch --nodes=2 trainers/launch/nodes-slurm.sh           train, or go on where OUT has a run
#
# OUT is on a file system that all machines share. Add what the cluster asks for (--partition, --account), and above
# `srun` what activates the environment that agentgym is installed in. What follows is passed on to `agentgym train`.
set -euo pipefail

RECIPE=${RECIPE:-gigpo/gigpo-alfworld}      # `agentgym recipes list` has the names
MODEL=${MODEL:-models/Qwen2.5-7B-Instruct}  # a model directory
OUT=${OUT:-runs/${RECIPE##*/}}
NODES=${SLURM_JOB_NUM_NODES:-2}
MIN_NODES=${MIN_NODES:-1}                   # that go on without the others, the first one among them
RESTARTS=${RESTARTS:-3}
GPUS=${GPUS:-8}                             # of a machine, as --gpus-per-node says
ENGINE=${ENGINE:-vllm}                      # samples responses, one engine a GPU; hf needs no vLLM
ENGINE_MEMORY=${ENGINE_MEMORY:-0.35}        # of each GPU, for vLLM
GIB=${GIB:-80}                              # memory of a GPU, for --plan

train=(--recipe "$RECIPE" --model "$MODEL" --set "rollout.engine=$ENGINE" --set "rollout.vllm_memory=$ENGINE_MEMORY")
if [ "${1:-}" = --plan ]; then
    exec agentgym train "${train[@]}" --plan $((NODES * GPUS)) --device-memory "$GIB" "${@:2}"
fi
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((20000 + SLURM_JOB_ID % 20000)) # jobs that share a machine do not meet
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 # each start has a store of its own
# `--` keeps torchrun from taking --log for its own
launch=(srun --no-kill --kill-on-bad-exit=0 torchrun --nnodes "$MIN_NODES:$NODES" --nproc-per-node "$GPUS"
    --max-restarts "$RESTARTS" --rdzv-id "$SLURM_JOB_ID" --rdzv-backend c10d --rdzv-endpoint "$head:$port" -m -- agentgym train)
if [ -e "$OUT/config.json" ]; then
    exec "${launch[@]}" --resume "$OUT"
fi
exec "${launch[@]}" "${train[@]}" --out "$OUT" --log console --log jsonl "$@"
