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
from agentgym.evaluation.log.replay import Replay, ReplayEnv, open_replay_envs
from agentgym.evaluation.log.results import ABORTED, EvalSample
from agentgym.evaluation.log.stored_run import StoredRun
from agentgym.io.optional import only_trusted

RATINGS = 3
"""Default number of new ratings of a transcript."""

SAMPLE = 50
"""Default number of transcripts of each environment that are rated again."""


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
        replay_envs = open_replay_envs(run, run.answers, stack)
        judged = {label: replay_env for label, replay_env in replay_envs.items() if _has_judge(replay_env)}
        if not judged:
            raise UsageError(
                f"no environment of {run.folder} asks a judge behind an endpoint: there is no spread"
            )
        named = named_endpoints(None, [replay_env.env for replay_env in judged.values()])
        stack.enter_context(RunSessions(settings).opened(run.folder, named))
        rng = np.random.default_rng(np.random.SeedSequence(seed))
        episodes = [e for e in run.results if e.end_reason not in ABORTED]
        found = {}
        for label, replay_env in judged.items():
            ours = sorted((e for e in episodes if e.env == label), key=lambda e: e.key)
            chosen = sorted(rng.choice(len(ours), min(sample, len(ours)), replace=False).tolist())
            found[label] = _judged_again(replay_env, run.answers, [ours[i] for i in chosen], ratings)
    spread = JudgeSpread(SPREAD_SCHEMA, run.log.request_id, ratings, seed, found)
    write_spread(run.folder, spread)
    return spread


def _has_judge(replay_env: ReplayEnv) -> bool:
    judge = replay_env.game.query_backends.get(JUDGE)
    return judge is not None and judge.kind.standing == "attested" and isinstance(judge, Resampled)


@dataclass(slots=True)
class _OtherRatings:
    """Answers from the book, but the judge's: an `agentgym.core.queries.AnswerSource`."""

    recorded: ReplayedAnswers
    judge: QueryBackend
    ratings: Mapping[str, Any] | None = None
    """New ratings by the key of the query; None to use the recorded ones and collect the queries."""
    questions: dict[str, Any] = field(default_factory=dict)
    """Queries to the judge, by key."""

    def find(self, backend: QueryBackend, queries: Sequence[QueryContext]) -> Sequence[Any]:
        """Return the answer to come."""
        if backend is not self.judge:
            return self.recorded.find(backend, queries)
        keys = [question_key(backend.kind, each) for each in queries]
        if self.ratings is None:
            self.questions |= {key: each.question for key, each in zip(keys, queries, strict=True)}
            return self.recorded.find(backend, queries)
        return [self.ratings.get(key, UNKNOWN) for key in keys]

    def keep(
        self, backend: QueryBackend, queries: Sequence[QueryContext], answers: Sequence[Any]
    ) -> Sequence[Any]:
        """Return the answers unchanged: the package computes them itself."""
        return answers


def _judged_again(
    replay_env: ReplayEnv, book: RecordedAnswers, episodes: Sequence[EvalSample], ratings: int
) -> JudgedAgain:
    judge = replay_env.game.query_backends[JUDGE]
    assert isinstance(judge, Resampled)
    source = _OtherRatings(ReplayedAnswers(book, replay_env.env.label), judge)
    replay_env.game.answer_source = source
    questions: list[dict[str, Any]] = []
    for episode in episodes:
        source.questions = {}
        _replayed(replay_env, episode)
        questions.append(source.questions)
    # all at once: the endpoint itself limits the requests in flight
    rerated = [
        {key: [judge.submit(q, sample=n) for n in range(1, ratings + 1)] for key, q in each.items()}
        for each in questions
    ]
    values: list[dict[str, list[float]]] = []
    unanswered = 0
    for episode, futures in zip(episodes, rerated, strict=True):
        collected: dict[str, list[float]] = {}
        for n in range(ratings):
            try:
                source.ratings = {key: future[n].result() for key, future in futures.items()}
            except UnansweredError:
                unanswered += 1
                continue
            for name, value in _replayed(replay_env, episode).items():
                collected.setdefault(name, []).append(value)
        values.append(collected)
    return JudgedAgain(
        judge=judge.kind.name,
        episodes=tuple(episode.id for episode in episodes),
        unanswered=unanswered,
        deviations=dict(_deviations(values)),
    )


def _replayed(replay_env: ReplayEnv, episode: EvalSample) -> dict[str, float]:
    """Play an episode again; return its score and measures."""
    replay = Replay.begin(replay_env.game, replay_env.env, episode.task_id, episode.seed, episode.rollout)
    for action in episode.actions:
        replay.step(action)
    return {"score": float(replay.info["score"]), **replay_env.game.measures()}


def _deviations(values: Sequence[Mapping[str, Sequence[float]]]) -> Iterator[tuple[str, float]]:
    """Yield the standard deviation of a rating about its transcript's mean, of the score and what moves."""
    names = list(dict.fromkeys(name for each in values for name in each))
    for name in names:
        variances: Floats = np.array([np.var(each[name], ddof=1) for each in values if len(each[name]) > 1])
        deviation = float(np.sqrt(variances.mean())) if len(variances) else 0.0
        if name == "score" or deviation > 0.0:
            yield name, deviation
