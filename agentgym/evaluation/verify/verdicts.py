"""Verdicts of verification, and this machine's cache of them.

A verdict that comes with a run proves nothing, since whoever made the run can write it. Boards read verdicts
from the user's own cache only, where each is filed under the digests of all it depends on.
"""

from __future__ import annotations

import json
import os
import platform
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from agentgym.core.hashing import sha256_json
from agentgym.data.directory import cache_directory, data_directory
from agentgym.errors import UsageError
from agentgym.evaluation.log.recorded_answers import AnswerCheck
from agentgym.evaluation.log.results import VERIFY_FILE, Excluded
from agentgym.evaluation.log.stored_run import StoredRun
from agentgym.evaluation.suites.suite import Suite
from agentgym.evaluation.verify.code_digest import suite_code_sha256
from agentgym.evaluation.verify.model_check import ModelCheck
from agentgym.io.files import make_folder, replace_file
from agentgym.io.provenance import Provenance
from agentgym.io.records import parse
from agentgym.io.untrusted import read_json
from agentgym.registration import ENVIRONMENTS, suite_spec

VERDICT_SCHEMA = 3
"""Version of ``verify.json``."""

Badge: TypeAlias = Literal["claimed", "replayed", "model-checked", "re-run"]
"""How far a run has been checked, least first: not at all; its actions; its actions, and that its model gives
its responses their recorded probabilities; or the agent itself, which played again and did the same."""

BADGES: tuple[Badge, ...] = get_args(Badge)

Role: TypeAlias = Literal["floor", "oracle", "agent"]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One thing that is wrong with a run."""

    kind: Literal[
        "run",
        "request",
        "suite",
        "environment",
        "manifest",
        "agent",
        "unfinished",
        "file",
        "result",
        "record",
        "chain",
        "malformed",
        "missing",
        "unknown",
        "seed",
        "replay",
        "re-run",
        "transcript",
        "model",
        "answer",
    ]
    where: str
    detail: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.kind}: {self.where}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of verification; the content of ``verify.json``, which nothing reads."""

    schema: int
    ok: bool
    badge: Badge
    """What the run has earned."""
    role: Role
    """Floor or oracle only for the agent of the suite that played again and did the same."""
    problems: tuple[Mismatch, ...]
    episodes: int
    """Episodes checked."""
    steps: int
    """Steps checked."""
    suite_sha256: str
    """`Suite.sha256` of the suite that the run was compared with."""
    unsupported: tuple[Excluded, ...]
    """Environments that the agent does not play, with what it said when it was made here."""
    missing: tuple[Excluded, ...]
    """Environments of the suite that neither the run nor this machine has the data of."""
    run_sha256: str
    """sha256 of ``run.json`` as it was verified."""
    episodes_sha256: str
    """sha256 of ``episodes.jsonl`` as it was verified."""
    code_sha256: str
    """`suite_code_sha256` of the package that verified."""
    provenance: Provenance
    """Where it was verified."""
    model: ModelCheck | None = None
    """What was found when the model's responses were recomputed; None where they were not."""
    answers: AnswerCheck | None = None
    """What was found of recorded answers; None where the run rests on none."""

    @property
    def earned(self) -> str:
        """The badge, and what the run rests on."""
        return self.badge + (self.answers.badge if self.answers is not None else "")


def save_verdict(run: StoredRun, verdict: Verdict) -> None:
    """Write ``verify.json`` into a run's folder, for people, and keep the verdict in the cache."""
    replace_file(run.folder / VERIFY_FILE, _text(verdict))
    keep_verdict(run, verdict)


def keep_verdict(run: StoredRun, verdict: Verdict) -> None:
    """Keep a verdict in the cache, unless a good one with a higher badge is there.

    Of suites with environments of other packages, or with data outside the data directory, none is kept: they
    may change without a trace. Nor is any where the cache cannot be written.
    """
    if not _own(run.suite):
        return
    kept = cached_verdict(run)
    if kept is None or not kept.ok or BADGES.index(verdict.badge) >= BADGES.index(kept.badge):
        path = _path(run)
        with suppress(UsageError):
            make_folder(path.parent)
            replace_file(path, _text(verdict))


def cached_verdict(run: StoredRun) -> Verdict | None:
    """Return this machine's verdict on a run's files as they were read, by this code; None without one."""
    path = _path(run)
    if not _own(run.suite) or not path.is_file():
        return None
    try:
        return parse(Verdict, read_json(path), str(path))
    except UsageError:
        return None  # a damaged cache is no verdict


def _text(verdict: Verdict) -> str:
    return json.dumps(asdict(verdict), indent=2, ensure_ascii=False) + "\n"


def _own(suite: Suite) -> bool:
    named = [value for env in suite.env for value in env.kwargs.values() if isinstance(value, str)]
    return all(env.id in ENVIRONMENTS for env in suite.env) and not any(map(os.path.isabs, named))


def _data_state(suite: Suite) -> list[list[Any]]:
    """Return name, size and time of every file of official data that a suite's environments may read."""
    folders = {source.folder for env in suite.env for source in suite_spec(env.id).sources}
    state = []
    for folder in folders:
        for place, inner, files in os.walk(data_directory() / folder):
            for path in (Path(place, name) for name in (*inner, *files)):
                found = path.stat(follow_symlinks=path.exists())
                state.append([ascii(str(path)), found.st_size, found.st_mtime_ns])
    return sorted(state)


def _path(run: StoredRun) -> Path:
    depends_on = {
        "schema": VERDICT_SCHEMA,
        "files": run.digests,
        "suite": asdict(run.suite),
        "data": _data_state(run.suite),
        "code": suite_code_sha256(run.suite, run.log.agent.kind),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    return cache_directory() / "verdicts" / f"{sha256_json(depends_on)}.json"
