"""Nodes of a tree as plain values, for checkpoints: snapshots as bytes, and each step on their ways once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch

from agentgym.core.types import Completion, Message, Observation, Snapshot, Step
from agentgym.training.stages.branching.worker import BranchingWorker, Root, TreeNode


def pack_nodes(nodes: Sequence[TreeNode]) -> dict[str, Any]:
    """Return the nodes of one root as plain values and tensors."""
    steps: dict[int, Step] = {id(step): step for node in nodes for step in node.steps}
    number = {name: place for place, name in enumerate(steps)}
    return {
        "steps": [
            {**asdict(step), "observation": _pack_observation(step.observation)} for step in steps.values()
        ],
        "nodes": [
            {"snapshot": node.snapshot.to_bytes(), "path": [number[id(step)] for step in node.steps]}
            for node in nodes
        ],
    }


def unpack_nodes(worker: BranchingWorker, root: Root, packed: Mapping[str, Any]) -> list[TreeNode]:
    """Return the packed nodes, each restored once; `UsageError` where a state comes out otherwise."""
    steps = [_unpack_step(step) for step in packed["steps"]]
    return [
        worker.resume(root, Snapshot.from_bytes(node["snapshot"]), tuple(steps[n] for n in node["path"]))
        for node in packed["nodes"]
    ]


def _unpack_step(table: Mapping[str, Any]) -> Step:
    completion = table["completion"]
    messages = tuple(Message(**message) for message in completion["messages"])
    return Step(
        **{
            **table,
            "observation": _unpack_observation(table["observation"]),
            "completion": Completion(**{**completion, "messages": messages}),
        }
    )


def _pack_observation(observation: Observation) -> Any:
    if isinstance(observation, str):
        return observation
    return {**observation, "image": torch.from_numpy(observation["image"].copy())}


def _unpack_observation(packed: Any) -> Observation:
    return packed if isinstance(packed, str) else {**packed, "image": packed["image"].numpy()}
