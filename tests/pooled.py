"""Made-up episodes of a data pool."""

from agentgym.core.types import Completion, Step, Trajectory

ENV = "agentgym/EZPoints-v0"


def step(turn, version, **changes):
    completion = Completion(
        action=f"go {turn}",
        text=f"<action>gö {turn}</action>",
        prompt_ids=(1, 2, turn),
        response_ids=(7, 8),
        logprobs=(-0.1, -1 / 3),
        version=version,
        prompt_tokens=3,
        completion_tokens=2,
        seconds=0.25,
    )
    table = {
        "observation": f"room {turn}\n",
        "state_hash": f"{turn:032x}",
        "admissible_actions": ("look", f"go {turn}"),
        "completion": completion,
        "reward": 0.1 * turn,
        "next_state_hash": f"{turn + 1:032x}",
        "valid": turn != 1,
        "terminated": False,
        "truncated": False,
        "progress": 0.125,
        "cost": 2.0,
    }
    return Step(**table | changes)


def episode(rollout=0, *, task="a", version=0, steps=3, **changes):
    table = {
        "env_id": ENV,
        "task_id": task * 32,
        "task_type": "",
        "seed": 2**63 + 5,
        "rollout": rollout,
        "initial_hash": f"{0:032x}",
        "steps": tuple(step(turn, version) for turn in range(steps)),
        "final_observation": "the end",
        "won": bool(rollout % 2),
        "score": rollout / 3,
        "progress": 0.5,
        "end_reason": "failure",
        "env_seconds": 0.5,
        "model_seconds": 1.5,
        "measures": {"moves": 3.0},
    }
    return Trajectory(**table | changes)


def fill(pool, *names, size=2, **changes):
    """Add complete groups, of the tasks that they are named after."""
    for name in names:
        for rollout in range(size):
            pool.add(episode(rollout, task=name[0], **changes), group=name, size=size)


def names(groups):
    """Return the tasks of groups, which the tests give one letter each."""
    return None if groups is None else "".join(group.task_id[0] for group in groups)
