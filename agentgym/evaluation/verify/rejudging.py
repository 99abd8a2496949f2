"""Rejudging: the variation of a judge's repeated ratings of one transcript.

A sample of a run's episodes is played again from its record, with every question to the judge asked anew
instead of answered from ``answers.jsonl``, several times over. What the scores and measures come to is then
the judge's own spread, and nothing else: actions, partners and chance are the recorded ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from agentgym.core.arrays import Floats
from agentgym.core.queries import UNKNOWN, QueryBackend, QueryContext, UnansweredError
from agentgym.errors import UsageError
from agentgym.evaluation.log.endpoint_runs import EndpointSettings, RunSessions, named_endpoints
from agentgym.evaluation.log.judge_spread import JUDGE, SPREAD_SCHEMA, JudgedAgain, JudgeSpread, write_spread
from agentgym.evaluation.log.recorded_answers import RecordedAnswers, ReplayedAnswers, question_key
from agentgym.evaluation.log.replay import Replay, ReplayEnv, open_worlds
from agentgym.evaluation.log.results import ABORTED, EvalSample
from agentgym.evaluation.log.stored_run import StoredRun
from agentgym.io.optional import only_trusted

RATINGS = 3
"""How often a transcript is judged again, unless something else is asked for."""

SAMPLE = 50
"""Transcripts of each environment that are judged again, unless something else is asked for."""


@runtime_checkable
class Resampled(Protocol):
    """An answerer that answers equal questions anew, as judges behind endpoints do."""

    def submit(self, question: Any, *, sample: int = 0) -> Future[Any]:
        """Return the answer to come; ``sample`` distinguishes answers to one question."""


def judge_again(
    run: StoredRun,
    *,
    ratings: int = RATINGS,
    sample: int = SAMPLE,
    seed: int = 0,
    allow: Collection[str] = (),
    endpoints: EndpointSettings | None = None,
) -> JudgeSpread:
    """Have the judge of a run rate a sample of its transcripts again; write ``judge_spread.json``.

    Each of at most ``sample`` transcripts of an environment is judged ``ratings`` times, at least 2;
    ``endpoints`` None means no budgets and no prices.
    """
    if ratings < 2 or sample < 1:
        raise UsageError(f"a spread takes at least 2 ratings of 1 transcript, got {ratings} of {sample}")
    settings = endpoints or EndpointSettings()
    if settings.mode in ("read", "replay-only"):
        raise UsageError(
            f"the judge is asked anew, and not the cache: leave out --cache-mode {settings.mode}"
        )
    with only_trusted(allow), ExitStack() as stack:
        if run.log.result_id is None:
            raise UsageError(f"{run.folder} holds no complete run: finish it with `agentgym bench` first")
        worlds = open_worlds(run, run.answers, stack)
        judged = {label: world for label, world in worlds.items() if _has_judge(world)}
        if not judged:
            raise UsageError(
                f"no environment of {run.folder} asks a judge behind an endpoint: there is no spread"
            )
        named = named_endpoints(None, [world.env for world in judged.values()])
        stack.enter_context(RunSessions(settings).opened(run.folder, named))
        rng = np.random.default_rng(np.random.SeedSequence(seed))
        episodes = [e for e in run.results if e.end_reason not in ABORTED]
        found = {}
        for label, world in judged.items():
            ours = sorted((e for e in episodes if e.env == label), key=lambda e: e.key)
            chosen = sorted(rng.choice(len(ours), min(sample, len(ours)), replace=False).tolist())
            found[label] = _judged_again(world, run.answers, [ours[i] for i in chosen], ratings)
    spread = JudgeSpread(SPREAD_SCHEMA, run.log.request_id, ratings, seed, found)
    write_spread(run.folder, spread)
    return spread


def _has_judge(world: ReplayEnv) -> bool:
    judge = world.game.query_backends.get(JUDGE)
    return judge is not None and judge.kind.standing == "attested" and isinstance(judge, Resampled)


@dataclass(slots=True)
class _OtherRatings:
    """Answers from the book, but the judge's: an `agentgym.core.queries.AnswerSource`."""

    recorded: ReplayedAnswers
    judge: QueryBackend
    ratings: Mapping[str, Any] | None = None
    """By the key of the question; None to take the book's too, and note the questions."""
    asked: dict[str, Any] = field(default_factory=dict)
    """What the judge was asked, by key."""

    def find(self, answerer: QueryBackend, asked: Sequence[QueryContext]) -> Sequence[Any]:
        """Return the answer to come."""
        if answerer is not self.judge:
            return self.recorded.find(answerer, asked)
        keys = [question_key(answerer.kind, each) for each in asked]
        if self.ratings is None:
            self.asked |= {key: each.question for key, each in zip(keys, asked, strict=True)}
            return self.recorded.find(answerer, asked)
        return [self.ratings.get(key, UNKNOWN) for key in keys]

    def keep(
        self, answerer: QueryBackend, asked: Sequence[QueryContext], answers: Sequence[Any]
    ) -> Sequence[Any]:
        """Pass on what the package computes itself."""
        return answers


def _judged_again(
    world: ReplayEnv, book: RecordedAnswers, episodes: Sequence[EvalSample], ratings: int
) -> JudgedAgain:
    judge = world.game.query_backends[JUDGE]
    assert isinstance(judge, Resampled)
    source = _OtherRatings(ReplayedAnswers(book, world.env.label), judge)
    world.game.answer_source = source
    questions: list[dict[str, Any]] = []
    for episode in episodes:
        source.asked = {}
        _replayed(world, episode)
        questions.append(source.asked)
    # all at once: an endpoint knows itself how many requests it takes
    said_again = [
        {key: [judge.submit(q, sample=n) for n in range(1, ratings + 1)] for key, q in asked.items()}
        for asked in questions
    ]
    values: list[dict[str, list[float]]] = []
    unanswered = 0
    for episode, futures in zip(episodes, said_again, strict=True):
        collected: dict[str, list[float]] = {}
        for n in range(ratings):
            try:
                source.ratings = {key: future[n].result() for key, future in futures.items()}
            except UnansweredError:
                unanswered += 1
                continue
            for name, value in _replayed(world, episode).items():
                collected.setdefault(name, []).append(value)
        values.append(collected)
    return JudgedAgain(
        judge=judge.kind.name,
        episodes=tuple(episode.id for episode in episodes),
        unanswered=unanswered,
        deviations=dict(_deviations(values)),
    )


def _replayed(world: ReplayEnv, episode: EvalSample) -> dict[str, float]:
    """Play an episode again; return its score and measures."""
    replay = Replay.begin(world.game, world.env, episode.task_id, episode.seed, episode.rollout)
    for action in episode.actions:
        replay.step(action)
    return {"score": float(replay.info["score"]), **world.game.measures()}


def _deviations(values: Sequence[Mapping[str, Sequence[float]]]) -> Iterator[tuple[str, float]]:
    """Yield the standard deviation of a rating about its transcript's mean, of the score and what moves."""
    names = list(dict.fromkeys(name for each in values for name in each))
    for name in names:
        variances: Floats = np.array([np.var(each[name], ddof=1) for each in values if len(each[name]) > 1])
        deviation = float(np.sqrt(variances.mean())) if len(variances) else 0.0
        if name == "score" or deviation > 0.0:
            yield name, deviation
