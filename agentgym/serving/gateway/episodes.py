"""Episodes of sessions: one step per model call, with the environment's result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agentgym.core.arrays import sum_in_order
from agentgym.core.episodes import game_end
from agentgym.core.hashing import content_id
from agentgym.core.types import Completion, Step, Trajectory
from agentgym.serving.gateway.call_tree import EnvRow, ModelCall
from agentgym.serving.gateway.sessions import GatewaySession, SessionOutcome

ENV_ID = "gateway"
"""Environment id of episodes without an environment, where their sessions name none."""


def start_of(session: GatewaySession) -> dict[str, Any]:
    """Return where a session's episode begins: ``env_id``, ``task_id`` and ``initial_hash``."""
    env_id, task = session.spec.served or session.spec.env_id or ENV_ID, session.spec.task or ""
    initial_hash = session.rows[0].state_hash if session.rows else content_id((env_id, task))
    return {"env_id": env_id, "task_id": task, "initial_hash": initial_hash}


def make_trajectory(session: GatewaySession, outcome: SessionOutcome) -> Trajectory:
    """Return a session's episode, of the calls that are trained (`CallTree.trained`), at least one.

    A call's reward is the sum of the environment's steps that followed it, valid where all were accepted;
    without a step it is 0, in the same state. The outcome's reward comes to the last call. An episode that
    its environment did not end has score 0, as any that an agent breaks off, unless the outcome has one.
    """
    calls, rows, spec, info = session.tree.trained(), session.rows, session.spec, session.info
    steps = [
        _step(call, following, joined=bool(rows))
        for call, following in zip(calls, [*calls[1:], None], strict=True)
    ]
    steps[-1] = replace(steps[-1], reward=steps[-1].reward + outcome.reward)
    won, score = outcome.won, outcome.score
    over = bool(rows) and (rows[-1].terminated or rows[-1].truncated)
    if over:
        won, score = info["won"] if won is None else won, info["score"] if score is None else score
    elif not rows:
        score = outcome.reward if score is None else score
        won = score >= 1 if won is None else won
    terminated = rows[-1].terminated if over else won is not None
    reason = game_end(terminated=terminated, truncated=over, won=bool(won))
    return Trajectory(
        **start_of(session),
        task_type=info.get("task_type", ""),
        seed=spec.seed or 0,
        rollout=spec.rollout or 0,
        steps=tuple(steps),
        final_observation=rows[-1].observation if rows else "",
        won=bool(won),
        score=float(score or 0.0),
        progress=rows[-1].progress if over else 0.0,
        end_reason=reason or ("context_limit" if session.full else "agent_error"),
        env_seconds=sum((row.seconds for row in rows), 0.0),
        model_seconds=sum((call.seconds for call in calls), 0.0),
    )


def _step(call: ModelCall, following: ModelCall | None, *, joined: bool) -> Step:
    """Return the step that a call is; ``joined``: whether there is an environment."""
    moves, made, view = call.moves, call.generation, call.view
    after = view if following is None else following.view
    if moves:
        after = moves[-1]
    elif not joined and following is None:
        after = EnvRow(content_id((view.state_hash, call.answer.text)))
    completion = Completion(
        action="\n".join(move.action for move in moves) if joined else call.answer.text,
        text=call.answer.text,
        prompt_ids=call.prompt_ids,
        response_ids=made.ids,
        logprobs=made.logprobs,
        version=made.version,
        versions=made.versions,
        prompt_tokens=len(call.prompt_ids),
        completion_tokens=len(made.ids),
        seconds=call.seconds,
    )
    return Step(
        observation=view.observation if joined else "\n".join(each.text for each in call.messages),
        state_hash=view.state_hash,
        admissible_actions=view.admissible_actions,
        completion=completion,
        reward=call.reward,
        next_state_hash=after.state_hash,
        valid=call.valid,
        terminated=any(move.terminated for move in moves) or (not joined and following is None),
        truncated=any(move.truncated for move in moves),
        progress=after.progress - view.progress if moves else 0.0,
        cost=sum_in_order(move.cost for move in moves),
    )
