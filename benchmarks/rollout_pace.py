"""Decoding steps of a rollout in lock-step, and with each episode at its own pace.

``python -m benchmarks.rollout_pace`` plays ALFWorld with random weights of 0.8 million parameters, whose
responses end by chance, so that their lengths vary; a response decides which admissible action is taken.
Tokens are the same but where a draw lies within rounding of the boundary between two of them: then the
episode goes on in another way. Steps are counted where the engine steps whenever the rollout has nothing
else to do, which is the same each time; seconds are those of the engine's own thread, on a processor that
other work shared. The last column is a forecast: the recorded responses given again on a clock of rates for
a large model on one GPU, from the arithmetic of a cost model that no run has checked.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import eq
from pathlib import Path
from queue import Empty
from time import perf_counter
from typing import Any
from unittest.mock import Mock, patch

import torch

from agentgym.core.hashing import content_id
from agentgym.core.types import Request
from agentgym.prompts.parsers import Answer
from agentgym.registration import open_vector
from agentgym.rollout import dispatch
from agentgym.rollout.worker import RolloutWorker
from agentgym.training.engines.hf import HfEngine
from agentgym.training.engines.replay import RecordingEngine, ReplayEngine
from agentgym.training.engines.responses import SampledResponse
from agentgym.training.engines.stepping import SteppingEngine
from agentgym.training.engines.types import Engine, Generation, GenerationRequest, Sampling
from agentgym.training.engines.vllm import VllmEngine
from agentgym.training.models.models import LanguageModel
from agentgym.training.models.tiny import environment_texts, tiny_model, word_tokenizer
from agentgym.training.policy.policy import AsyncLanguageModelPolicy, LanguageModelPolicy
from agentgym.vector.core import AgentVectorEnv

ENV = "agentgym/ALFWorld-v0"
TASKS, GROUP_SIZE, TURNS = 12, 4, 20
LONGEST, STOPS = 128, 20
"""Most tokens of a response, and how many tokens are likely before one ends it."""

VLLM_ABOUT = """
``python -m benchmarks.rollout_pace --engine vllm`` plays what [that page](rollout_pace.md) has through
the engine over vLLM, in its build for processors: in lock-step a turn is one call of ``LLM.generate``, at its
own pace each episode has a request of its own. Steps are those of vLLM's engine, which the rollout steps
whenever it has nothing else to do. A token differs where a draw lies within rounding of the boundary between
two of them.
"""

STEP, ROW, READ = 0.005, 0.00004, 1 / 40_000
"""Assumed seconds of a decoding step, more for each row of it, and for each prompt token that is read."""


class Pumped(SteppingEngine):
    """An engine that steps on demand, instead of in a thread."""

    def _run_thread(self) -> None:
        self._threaded = True

    def advance(self) -> None:
        """Take a step."""
        self._finish(self._step(self._waiting))


class CountedHf(HfEngine):
    """Counts what it does."""

    steps = rows = 0

    def _draw(self, fresh: list[SampledResponse]) -> list[SampledResponse]:
        self.steps += 1
        self.rows += len(self._batch) + len(fresh)
        return super()._draw(fresh)


class PumpedHf(Pumped, CountedHf):
    """The same, stepped by the rollout."""


class PumpedVllm(Pumped, VllmEngine):
    """The engine over vLLM, stepped by the rollout."""


class SimulatedEngine(Pumped):
    """Engine of recorded responses, on a virtual clock."""

    def __init__(self, recording: ReplayEngine):
        """Bind the recording."""
        super().__init__(recording.version)
        self.recording = recording
        self.seconds = 0.0
        self._batch: list[tuple[SampledResponse, Generation]] = []

    @property
    def context_length(self) -> int:
        """Most tokens that a prompt and its response may have together."""
        return self.recording.context_length

    def _begin(self, request: GenerationRequest) -> SampledResponse:
        return SampledResponse.to(request, self.context_length)

    def _generate(self, responses: list[SampledResponse]) -> list[Generation]:
        waiting = deque(responses)
        while waiting or self._batch:
            self._step(waiting)
        return [response.generation(self._version) for response in responses]

    def _step(self, waiting: deque[SampledResponse]) -> list[SampledResponse]:
        while waiting:
            response = waiting.popleft()
            self.seconds += READ * len(response.request.prompt_ids)
            self._batch.append((response, self.recording.submit(response.request).result()))
        self.seconds += STEP + ROW * len(self._batch)
        for response, recorded in self._batch:
            place = len(response.ids)
            response.take(recorded.ids[place], recorded.logprobs[place])
        over = [response for response, _ in self._batch if response.finish is not None]
        self._batch = [each for each in self._batch if each[0].finish is None]
        return over

    def _drop(self) -> list[SampledResponse]:
        dropped, self._batch = self._batch, []
        return [response for response, _ in dropped]

    def _sync(self, state: Iterable[Any], version: int) -> None:
        raise RuntimeError(f"recorded responses take no weights, got version {version}")


@contextmanager
def pumping(engine: Engine) -> Iterator[None]:
    """Let the engine step where a rollout would wait."""

    class Heard(deque[Any]):
        put = deque.append

        def get(self) -> Any:
            while not self:
                engine.advance()  # type: ignore[attr-defined]
            return self.popleft()

        def get_nowait(self) -> Any:
            if not self:
                raise Empty
            return self.popleft()

    with patch.object(dispatch, "SimpleQueue", Heard) if isinstance(engine, Pumped) else patch.dict({}):
        yield


def policy_of(engine: Engine, model: LanguageModel, *, asynchronous: bool) -> LanguageModelPolicy:
    """Return a policy whose responses end by chance, and choose an action by their text."""

    def read(text: str, request: Request) -> Answer:
        number = int(content_id(text)[:8], 16)
        return Answer("", (request.admissible_actions[number % len(request.admissible_actions)],), "")

    size = len(model.tokenizer)
    stops = tuple(torch.randperm(size, generator=torch.Generator().manual_seed(0))[: size // STOPS].tolist())
    kind = AsyncLanguageModelPolicy if asynchronous else LanguageModelPolicy
    return kind(
        engine,
        model.chat,
        lambda request: model.chat.encode(request.observation)[-200:] or (0,),
        sampling=Sampling(max_tokens=LONGEST, stop_ids=stops),
        read=read,
    )


def play(
    envs: AgentVectorEnv, engine: Engine, model: LanguageModel, *, asynchronous: bool
) -> tuple[list[list[tuple[int, ...]]], float]:
    """Return the responses of each episode, and the seconds that they took."""
    worker = RolloutWorker(envs, policy_of(engine, model, asynchronous=asynchronous), env_id=ENV)
    began = perf_counter()
    with pumping(engine):
        groups = worker.collect(envs.tasks.ids[:TASKS], group_size=GROUP_SIZE, seed=0)
    seconds = perf_counter() - began
    members = [member for group in groups for member in group.trajectories]
    return [[step.completion.response_ids for step in member.steps] for member in members], seconds


def opened(slots: int) -> tuple[AgentVectorEnv, LanguageModel]:
    """Return environments, and random weights for their words."""
    envs = open_vector(ENV, slots, options={"max_steps": TURNS})
    words = word_tokenizer(environment_texts(envs, episodes=24, seed=0))
    return envs, tiny_model("0.8m", words, context=512, seed=3)


def row(slots: int) -> str:
    """Return a line of the table."""
    envs, model = opened(slots)
    lock_step, paced, threaded = CountedHf(model.model), PumpedHf(model.model), CountedHf(model.model)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recording.jsonl"
        first, _ = play(envs, RecordingEngine(lock_step, path), model, asynchronous=False)
        simulated = SimulatedEngine(ReplayEngine(path)), SimulatedEngine(ReplayEngine(path))
    seconds = [play(envs, HfEngine(model.model), model, asynchronous=False)[1]]
    again = [play(envs, engine, model, asynchronous=True) for engine in (paced, threaded, simulated[1])]
    again.append(play(envs, simulated[0], model, asynchronous=False))
    seconds.append(again[1][1])
    same = [sum(map(eq, first, found)) for found, _ in again]
    envs.close()
    lengths = sorted(len(response) for episode in first for response in episode)
    forecast = [engine.seconds for engine in simulated]
    return (
        f"| {TASKS * GROUP_SIZE} | {slots} | {sum(lengths) / len(lengths):.0f}, {lengths[-1]} "
        f"| {lock_step.steps:,} | {paced.steps:,} | **{paced.steps / lock_step.steps:.2f}** "
        f"| {lock_step.rows / lock_step.steps:.1f}, {paced.rows / paced.steps:.1f} "
        f"| {same[0]}, {same[1]} of {len(first)} | {threaded.steps:,} | {seconds[0]:.1f}, {seconds[1]:.1f} "
        f"| {forecast[0]:.1f}, {forecast[1]:.1f} |"
    )


def vllm_rows(numbers: Iterable[int]) -> Iterator[str]:
    """Return a line of vLLM's table for each number of slots; a process holds one engine of vLLM."""
    engine = None
    step = Mock()
    for slots in numbers:
        envs, model = opened(slots)
        if engine is None:
            options = {"enforce_eager": True, "max_num_seqs": 64, "gpu_memory_utilization": 0.2}
            engine = PumpedVllm.of(model, dtype=torch.float32, options=options)
            core = engine._llm.llm_engine
            core.step = step = Mock(side_effect=core.step)
        found, steps = [], []
        for asynchronous in (False, True):
            engine._threaded = False
            engine.sync(model.model.state_dict().items(), 0)  # which empties the cache of prefixes
            step.reset_mock()
            found.append(play(envs, engine, model, asynchronous=asynchronous)[0])
            steps.append(step.call_count)
        envs.close()
        lengths = sorted(len(response) for episode in found[0] for response in episode)
        yield (
            f"| {TASKS * GROUP_SIZE} | {slots} | {sum(lengths) / len(lengths):.0f}, {lengths[-1]} "
            f"| {steps[0]:,} | {steps[1]:,} | **{steps[1] / steps[0]:.2f}** "
            f"| {sum(map(eq, *found))} of {len(found[0])} |"
        )


def main() -> int:
    """Print the table, and write it where it is to be kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, help="a file to write, such as benchmarks/rollout_pace.md")
    parser.add_argument("--engine", choices=("hf", "vllm"), default="hf", help="what samples (default: hf)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = hf_table() if options.engine == "hf" else vllm_table()
    print("\n".join(lines))
    if options.out:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


def vllm_table() -> list[str]:
    """Return the page of vLLM's engine."""
    heads = (
        "episodes", "slots", "tokens of a response: mean, longest", "engine steps in lock-step",
        "at their own pace", "share", "episodes with the same tokens",
    )  # fmt: skip
    lines = ["# The pace of episodes through vLLM", *VLLM_ABOUT.splitlines(), ""]
    lines += [f"{TURNS} turns an episode.", ""]
    return [*lines, f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}", *vllm_rows((48, 16))]


def hf_table() -> list[str]:
    """Return the page of the engine over `transformers`."""
    heads = (
        "episodes", "slots", "tokens of a response: mean, longest", "steps in lock-step", "at their own pace",
        "share", "rows a step", "episodes with the same tokens", "steps of the thread",
        "seconds on a processor", "seconds forecast",
    )  # fmt: skip
    lines = ["# The pace of episodes", "", *(__doc__ or "").splitlines(), ""]
    return [
        *lines,
        f"Assumed for the forecast: {STEP * 1e3:.0f} ms a step, {ROW * 1e6:.0f} us a row of it, "
        f"{1 / READ:,.0f} prompt tokens a second. {TURNS} turns an episode.",
        "Pairs are lock-step and own pace; of the same tokens, stepped by the rollout and by the thread.",
        "",
        f"| {' | '.join(heads)} |",
        f"|{'---|' * len(heads)}",
        *map(row, (48, 16)),
    ]


if __name__ == "__main__":
    sys.exit(main())
