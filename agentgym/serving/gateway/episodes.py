"""Episodes of sessions: one step a model call, with what the environment made of it."""

from __future__ import annotations

from dataclasses import replace

from agentgym.core.hashing import content_id
from agentgym.core.types import Completion, EndReason, Step, Trajectory
from agentgym.rollout.worker import CONTRACT_KEYS
from agentgym.serving.gateway.call_tree import EnvView, ModelCall
from agentgym.serving.gateway.sessions import GatewaySession, SessionOutcome

_NO_SUITES = CONTRACT_KEYS | {"session_id", "episode_id", "snapshot", "step_cost"}
"""Keys of infos that are no suite's own."""


def make_trajectory(session: GatewaySession, outcome: SessionOutcome, env_id: str) -> Trajectory:
    """Return a session's episode, of the calls that are trained (`CallTree.trained`), at least one.

    A call's reward is the sum of the environment's steps that followed it, valid where all were accepted;
    without a step it is 0, in the same state. The outcome's reward comes to the last call. An episode that
    its environment did not end has score 0, as any that an agent breaks off, unless the outcome has one.
    """
    calls, moves, spec = session.tree.trained(), session.moves, session.spec
    steps = [
        _step(call, following, joined=bool(session.views))
        for call, following in zip(calls, [*calls[1:], None], strict=True)
    ]
    steps[-1] = replace(steps[-1], reward=steps[-1].reward + outcome.reward)
    over = bool(moves) and (moves[-1].terminated or moves[-1].truncated)
    won, score, progress = outcome.won, outcome.score, 0.0
    if over:
        info = session.info
        won, score = info["won"] if won is None else won, info["score"] if score is None else score
        progress = float(info["progress"])
    elif not session.views:
        score = outcome.reward if score is None else score
        won = score >= 1 if won is None else won
    reason: EndReason = "success" if won else "failure"
    if over and not moves[-1].terminated:
        reason = "step_limit"
    elif session.views and not over and won is None:
        reason = "context_limit" if session.full else "agent_error"
    task = spec.task or ""
    return Trajectory(
        env_id=env_id,
        task_id=task,
        task_type=session.task_type,
        seed=spec.seed or 0,
        rollout=spec.rollout or 0,
        initial_hash=session.views[0].state_hash if session.views else content_id((env_id, task)),
        steps=tuple(steps),
        final_observation=session.views[-1].observation if session.views else "",
        won=bool(won),
        score=float(score or 0.0),
        progress=progress,
        end_reason=reason,
        env_seconds=sum((move.seconds for move in moves), 0.0),
        model_seconds=sum((call.seconds for call in calls), 0.0),
        extra={key: value for key, value in session.info.items() if key not in _NO_SUITES},
    )


def drawn_alike(calls: list[ModelCall]) -> bool:
    """Return whether all calls were sampled at one temperature above 0, as a learner needs it."""
    return {call.temperature for call in calls} != {0.0} and len({call.temperature for call in calls}) == 1


def _step(call: ModelCall, following: ModelCall | None, *, joined: bool) -> Step:
    """Return the step that a call is; ``joined``: whether there is an environment."""
    moves, made, view = call.moves, call.generation, call.view
    after = view if following is None else following.view
    if moves:
        after = moves[-1].view
    elif not joined and following is None:
        after = EnvView(content_id((view.state_hash, call.answer.text)))
    said = "\n".join(move.action for move in moves) if joined else call.answer.text
    completion = Completion(
        action=said,
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
        reward=sum((move.reward for move in moves), 0.0),
        next_state_hash=after.state_hash,
        valid=all(move.valid for move in moves),
        terminated=any(move.terminated for move in moves) or (not joined and following is None),
        truncated=any(move.truncated for move in moves),
        progress=after.progress - view.progress if moves else 0.0,
        cost=sum((move.cost for move in moves), 0.0),
    )
