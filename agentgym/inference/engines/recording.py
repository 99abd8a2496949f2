"""Recorded generations: an engine that records another, and one that replays the record.

A rollout is reproduced from such a file without its model, token for token: to look at it again, or to
find what else has changed between two runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

from torch import Tensor

from agentgym.core.futures import mapped
from agentgym.errors import UsageError
from agentgym.inference.engines.responses import SampledResponse
from agentgym.inference.engines.types import Engine, Generation, GenerationRequest, Sampling
from agentgym.io.files import writing

FORMAT = 1
"""Version of the file: its first line holds this and the engine's context, each other one a generation."""

_Key: TypeAlias = tuple[tuple[int, ...], int, Sampling, bool]
"""Inputs of a generation except the version: prompt, seed, sampling, and whether it was a choice."""


class RecordingEngine:
    """Answers with another engine's generations and appends each to a file, whole after every call."""

    def __init__(self, engine: Engine, path: str | Path):
        """Begin a JSON Lines file, which must not exist, of what an engine generates."""
        self.engine = engine
        self._path = Path(path)
        self._lock = Lock()
        if self._path.exists():
            raise UsageError(f"{path} exists: name another file for the recording")
        with writing(self._path), self._path.open("x", encoding="utf-8") as file:
            file.write(_line({"format": FORMAT, "context_length": engine.context_length}))

    @property
    def version(self) -> int:
        """Version of the weights."""
        return self.engine.version

    @property
    def context_length(self) -> int:
        """Most tokens that a prompt and its response may have together."""
        return self.engine.context_length

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Continue every prompt, as the engine does, and write down how."""
        generations = self.engine.generate(requests)
        self._append(zip(requests, generations, strict=True))
        return generations

    def submit(self, request: GenerationRequest) -> Future[Generation]:
        """Return the generation to come, which is written down first."""

        def recorded(generation: Generation) -> Generation:
            self._append([(request, generation)])
            return generation

        return mapped(self.engine.submit(request), recorded)

    def _append(self, answered: Iterable[tuple[GenerationRequest, Generation]]) -> None:
        with self._lock, writing(self._path), self._path.open("a", encoding="utf-8") as file:
            for request, generation in answered:
                question = {
                    "prompt_ids": request.prompt_ids,
                    "seed": request.seed,
                    "sampling": asdict(request.sampling),
                    "choice": request.allowed is not None,
                }
                file.write(_line(question | asdict(generation)))

    def sync(self, state: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Take over weights, as the engine does."""
        self.engine.sync(state, version)


class ReplayEngine:
    """Engine that returns a file's recorded generations, and no others."""

    def __init__(self, path: str | Path, *, version: int | None = None, in_flight: bool = False):
        """Read the recording of a `RecordingEngine`.

        ``version``: to begin with, None for its first; ``in_flight``: whether a request is answered by the
        one version that has answered it, now or later, as where weights changed under what was in flight.
        """
        self._path = Path(path)
        self._in_flight = in_flight
        self._answers: dict[_Key, dict[int, Generation]] = {}
        try:
            with self._path.open(encoding="utf-8") as file:
                head = json.loads(file.readline())
                if head["format"] != FORMAT:
                    raise ValueError(f"it is of format {head['format']}, not {FORMAT}")
                self._context_length = int(head["context_length"])
                for key, generation in map(_answer, file):
                    self._answers.setdefault(key, {})[generation.version] = generation
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}; name a recording") from error
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"the recording {path} is damaged ({error}): record it anew") from error
        first = next((min(answers) for answers in self._answers.values()), 0)
        self._version = first if version is None else version

    @property
    def version(self) -> int:
        """Version of the weights whose generations are given."""
        return self._version

    @property
    def context_length(self) -> int:
        """Most tokens that a prompt and its response may have together."""
        return self._context_length

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Return the recorded generations.

        `UsageError` where a request was not recorded at this version or with these choices; or as the
        recorded engine raises it for prompts that are empty or too long.
        """
        return [self._replayed(request) for request in requests]

    def submit(self, request: GenerationRequest) -> Future[Generation]:
        """Return the recorded generation, as `generate`."""
        future: Future[Generation] = Future()
        future.set_result(self._replayed(request))
        return future

    def sync(self, state: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Switch to the generations of a version; the weights themselves are ignored."""
        self._version = version

    def _replayed(self, request: GenerationRequest) -> Generation:
        SampledResponse.to(request, self._context_length)
        answers = self._answers.get(_key(request), {})
        answer = answers.get(self._version)
        if answer is None and self._in_flight and len(answers) == 1:
            (answer,) = answers.values()
        if answer is None:
            raise UsageError(
                f"{self._path} holds no answer of version {self._version} to a prompt of "
                f"{len(request.prompt_ids)} tokens with seed {request.seed}: replay what was recorded, with "
                "the same prompts, seeds and sampling"
            )
        if request.allowed is not None:
            try:
                request.allowed.action(answer.ids)
            except ValueError as error:
                raise UsageError(
                    f"{self._path} was recorded with other actions to choose from: {error}"
                ) from None
        return answer


def _line(record: Mapping[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":")) + "\n"


def _key(request: GenerationRequest) -> _Key:
    return request.prompt_ids, request.seed, request.sampling, request.allowed is not None


def _answer(line: str) -> tuple[_Key, Generation]:
    """Read a line of a recording."""
    row = json.loads(line)
    sampling = Sampling(**row["sampling"] | {"stop_ids": tuple(row["sampling"]["stop_ids"])})
    key = tuple(row["prompt_ids"]), row["seed"], sampling, row["choice"]
    generation = Generation(
        tuple(row["ids"]), tuple(row["logprobs"]), row["version"], row["finish"], tuple(row["versions"])
    )
    return key, generation
