"""What is shown of sessions: summaries, and traces of their calls."""

from __future__ import annotations

from typing import Any

from agentgym.endpoint.wire import message_table
from agentgym.serving.gateway.openai_chat import usage
from agentgym.serving.gateway.sessions import GatewaySession

_SHOWN = ("session_id", "task", "seed", "group", "group_size", "rollout")


def summary(session: GatewaySession) -> dict[str, Any]:
    """Return a session among others: nothing that its client may have made long."""
    return {name: getattr(session.spec, name) for name in _SHOWN} | {
        "state": "open" if session.completed is None else "complete",
        "created_at": session.spec.created,
        "trace_count": len(session.tree.calls),
        "step_count": len(session.rows[1:]),
    }


def details(session: GatewaySession) -> dict[str, Any]:
    """Return what is shown of a session by itself."""
    spec = session.spec
    return summary(session) | {
        "labels": spec.labels, "metadata": spec.metadata, "completed": session.completed
    }  # fmt: skip


def traces(session: GatewaySession, model: str) -> list[dict[str, Any]]:
    """Return a session's calls in order, under the names that rLLM's gateway has, and ours beside them."""
    trained = {call.number for call in session.tree.trained()}
    id = session.spec.session_id
    return [
        {
            "trace_id": f"{id}/{call.number}",
            "session_id": id,
            "parent_trace_id": None if call.parent is None else f"{id}/{call.parent}",
            "model": model,
            "messages": [message_table(each) for each in session.tree.messages(call)],
            "tools": call.tools,
            "response_message": message_table(call.answer),
            "prompt_token_ids": call.prompt_ids,
            "completion_token_ids": call.generation.ids,
            "logprobs": call.generation.logprobs,
            "finish_reason": call.finish,
            "weight_version": call.generation.version,
            "weight_versions": call.generation.versions,
            "temperature": call.temperature,
            "token_counts": usage(call),
            "latency_ms": call.seconds * 1000,
            "timestamp": call.time,
            "state_hash": call.view.state_hash,
            "next_state_hash": (call.moves[-1] if call.moves else call.view).state_hash,
            "turn": call.view.turn,
            "observation": call.view.observation,
            "admissible_actions": call.view.admissible_actions,
            "actions": [move.action for move in call.moves],
            "reward": call.reward,
            "valid": call.valid,
            "terminated": any(move.terminated for move in call.moves),
            "truncated": any(move.truncated for move in call.moves),
            "trained": call.number in trained,
        }
        for call in session.tree.calls
    ]
