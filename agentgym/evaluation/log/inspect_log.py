"""A run as a log of inspect_ai, version 2 of its JSON form: a copy for those who have tools for it.

A sample is an episode. It holds what was sent and said where the run has transcripts, else the actions; it
holds no state hashes. `agentgym.evaluation.imports` plays its actions again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from agentgym.core.hashing import sha256_json
from agentgym.errors import UsageError
from agentgym.evaluation.log.results import EvalLog, EvalSample
from agentgym.evaluation.log.stored_run import StoredRun
from agentgym.evaluation.log.transcripts import TranscriptRecord
from agentgym.io.files import replace_file
from agentgym.version import __version__

LOG_VERSION = 2
"""Of inspect_ai's log format."""

SCORERS = ("score", "success")


def export_inspect(run: StoredRun, out: Path) -> None:
    """Write a complete run as an inspect_ai log, ``.json``."""
    if out.suffix != ".json":
        raise UsageError(f"inspect_ai tells its logs by their names: call {out} FILE.json")
    if run.log.result_id is None:
        raise UsageError(f"{run.folder} is not complete; run the same bench command again")
    log = make_log(run.log, run.results, run.transcripts())
    replace_file(out, json.dumps(log, ensure_ascii=False, allow_nan=False, indent=1) + "\n")


def make_log(
    run: EvalLog, episodes: Sequence[EvalSample], transcripts: Mapping[str, TranscriptRecord]
) -> dict[str, Any]:
    """Return the content of a log.

    ``episodes``: the last attempt of each; ``transcripts`` by their sha256, none where the run was published
    without.
    """
    first, last = run.provenance[0].date, run.provenance[-1].date
    model = run.agent.model.base_model or run.agent.kind
    tokens = sum(each.prompt_tokens for each in episodes), sum(each.completion_tokens for each in episodes)
    return {
        "version": LOG_VERSION,
        "status": "success",
        "eval": {
            "eval_id": run.request_id[:22],
            "run_id": run.result_id,
            "created": first,
            "task": run.suite.name,
            "task_id": run.suite_sha256[:22],
            "task_version": run.suite.version,
            "dataset": {
                "name": run.suite.name,
                "samples": len({(each.env, each.task_id) for each in episodes}),
                "sample_ids": list(dict.fromkeys(_sample_id(each) for each in episodes)),
            },
            "model": model,
            "config": {"epochs": run.suite.attempts},
            "packages": {"agentgym": __version__},
            "metadata": {"agent": run.agent.display_name, "request_id": run.request_id},
            "scorers": [{"name": name} for name in SCORERS],
        },
        "plan": {"name": run.agent.kind, "steps": []},
        "results": {
            "total_samples": len(episodes),
            "completed_samples": len(episodes),
            "scores": [_result(name, episodes) for name in SCORERS],
        },
        "stats": {
            "started_at": first,
            "completed_at": last,
            "model_usage": {model: _usage(*tokens)},
        },
        "samples": [_sample(each, transcripts.get(each.transcript), model) for each in episodes],
    }


def _sample_id(episode: EvalSample) -> str:
    return f"{episode.env}/{episode.task_id}"


def _result(name: str, episodes: Sequence[EvalSample]) -> dict[str, Any]:
    mean = fmean(_scores(each)[name] for each in episodes) if episodes else 0.0
    return {"name": name, "scorer": name, "metrics": {"mean": {"name": "mean", "value": mean}}}


def _scores(episode: EvalSample) -> dict[str, float]:
    return {"score": episode.score, "success": float(episode.won)}


def _usage(prompt: int, completion: int) -> dict[str, int]:
    return {"input_tokens": prompt, "output_tokens": completion, "total_tokens": prompt + completion}


def _sample(episode: EvalSample, transcript: TranscriptRecord | None, model: str) -> dict[str, Any]:
    messages = list(_action_messages(episode) if transcript is None else _sent(transcript))
    numbered = [{"id": sha256_json([episode.id, n])[:22], **each} for n, each in enumerate(messages)]
    text = episode.actions[-1] if episode.actions else ""
    answer = {"role": "assistant", "content": text, "source": "generate"}
    return {
        "id": _sample_id(episode),
        "epoch": episode.rollout + 1,
        "input": f"{episode.task_type or episode.env}: task {episode.task_id}",
        "target": "",
        "messages": numbered,
        "output": {
            "model": model,
            "choices": [{"message": answer, "stop_reason": "stop"}],
            "usage": _usage(episode.prompt_tokens, episode.completion_tokens),
        },
        "scores": {name: {"value": value, "answer": text} for name, value in _scores(episode).items()},
        "metadata": {
            "end_reason": episode.end_reason,
            "length": episode.length,
            "invalid_count": episode.invalid_count,
            "format_errors": episode.format_errors,
            "return": episode.episode_return,
            "rewards": list(episode.rewards),
            "actions": list(episode.actions),
            "seed": episode.seed,
            **({} if transcript is None else {"redactions": [asdict(one) for one in transcript.redactions]}),
        },
        "store": {},
        "events": [],
        "model_usage": {model: _usage(episode.prompt_tokens, episode.completion_tokens)},
        "attachments": {},
    }


def _action_messages(episode: EvalSample) -> Iterator[dict[str, Any]]:
    """Yield the actions alone, each as an answer to the reward before it."""
    rewards = ("", *(f"reward {reward:g}" for reward in episode.rewards[:-1]))
    for before, action in zip(rewards, episode.actions, strict=False):  # there may be no action
        yield {"role": "user", "content": before or f"task {episode.task_id}"}
        yield {"role": "assistant", "content": action, "source": "generate"}


def _sent(transcript: TranscriptRecord) -> Iterator[dict[str, Any]]:
    """Yield the messages and answers, each step's messages whole."""
    for number, step in enumerate(transcript.steps):
        for message in transcript.messages(number):
            role = message.role if message.role in ("system", "user", "assistant") else "user"
            yield {"role": role, "content": message.text}
        yield {"role": "assistant", "content": step.response or step.action, "source": "generate"}
