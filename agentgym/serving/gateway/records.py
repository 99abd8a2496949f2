"""Records of sessions: lines of their journal, and traces as they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from agentgym.serving.gateway.call_tree import EnvView, ModelCall, Place
from agentgym.serving.gateway.openai_chat import message_table, read_messages, usage
from agentgym.serving.gateway.sessions import GatewaySession
from agentgym.training.engines.types import Generation


def head_record(session: GatewaySession, env_id: str) -> dict[str, Any]:
    """Return the first line of a session; ``env_id`` is empty without an environment."""
    spec = asdict(session.spec)
    return {"kind": "session", "created": session.created, "env": env_id, "spec": spec}


def call_record(session: GatewaySession, call: ModelCall, seen: int) -> dict[str, Any]:
    """Return the line of a call, with what it adds to its parent alone; ``seen``: views that there were."""
    made = call.generation
    return {
        "kind": "call",
        "asked": call.asked,
        "seen": seen,
        "parent": call.parent,
        "messages": [message_table(each) for each in call.messages],
        "tools": call.tools if call.parent is None else (),
        "ids": call.prompt_ids[_length(session, call.parent) :],
        "generation": {name: getattr(made, name) for name in Generation.__dataclass_fields__},
        "answer": message_table(call.answer),
        "finish": call.finish,
        "temperature": call.temperature,
        "seconds": call.seconds,
        "time": call.time,
    }


def take_up(session: GatewaySession, record: Mapping[str, Any]) -> None:
    """Add the call of a line to its session."""
    tree, parent = session.tree, record["parent"]
    before = None if parent is None else tree.calls[parent]
    earlier = () if before is None else (*tree.messages(before), before.answer)
    tools = tuple(record["tools"]) if before is None else before.tools
    messages = tuple(read_messages(record["messages"]))
    key = tree.find(tools, (*earlier, *messages)).key
    (answer,) = read_messages([record["answer"]])
    made = record["generation"]
    prefix = () if before is None else before.prompt_ids + before.generation.ids
    call = ModelCall(
        number=len(tree.calls),
        asked=record["asked"],
        parent=parent,
        messages=messages,
        tools=tools,
        prompt_ids=prefix + tuple(record["ids"]),
        generation=Generation(
            tuple(made["ids"]),
            tuple(made["logprobs"]),
            made["version"],
            made["finish"],
            tuple(made["versions"]),
        ),
        answer=answer,
        finish=record["finish"],
        temperature=record["temperature"],
        seconds=record["seconds"],
        view=session.views[record["seen"] - 1] if record["seen"] else EnvView(key),
        time=record["time"],
    )
    session.asked = max(session.asked, call.asked + 1)
    tree.add(call, Place(parent, messages, key))


def _length(session: GatewaySession, parent: int | None) -> int:
    if parent is None:
        return 0
    call = session.tree.calls[parent]
    return len(call.prompt_ids) + len(call.generation.ids)


def summary(session: GatewaySession) -> dict[str, Any]:
    """Return what is shown of a session."""
    spec = session.spec
    return {
        "session_id": spec.session_id,
        "state": "open" if session.completed is None else "complete",
        "created_at": session.created,
        "trace_count": len(session.tree.calls),
        "step_count": len(session.moves),
        **{
            name: getattr(spec, name) for name in ("task", "seed", "group", "group_size", "rollout", "labels")
        },
        "metadata": spec.metadata,
        "completed": session.completed,
    }


def traces(session: GatewaySession, model: str) -> list[dict[str, Any]]:
    """Return a session's calls in order, under the names that rLLM's gateway has, and ours beside them."""
    trained = {call.number for call in session.tree.trained()}
    return [
        {
            "trace_id": f"{session.spec.session_id}/{call.number}",
            "session_id": session.spec.session_id,
            "parent_trace_id": None if call.parent is None else f"{session.spec.session_id}/{call.parent}",
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
            "next_state_hash": (call.moves[-1].view if call.moves else call.view).state_hash,
            "turn": call.view.turn,
            "observation": call.view.observation,
            "admissible_actions": call.view.admissible_actions,
            "actions": [move.action for move in call.moves],
            "reward": sum((move.reward for move in call.moves), 0.0),
            "valid": all(move.valid for move in call.moves),
            "terminated": any(move.terminated for move in call.moves),
            "truncated": any(move.truncated for move in call.moves),
            "trained": call.number in trained,
        }
        for call in session.tree.calls
    ]
