"""Run pages: request, provenance, verification, and episodes."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from agentgym.agents.metadata import FILE_OPTIONS
from agentgym.core.hashing import canonical_json
from agentgym.errors import UsageError
from agentgym.evaluation.board.boards import Board
from agentgym.evaluation.board.tables import rank_cell
from agentgym.evaluation.log.results import EvalLog, RunEndpoint
from agentgym.evaluation.log.stored_run import StoredRun
from agentgym.evaluation.log.unreadable import UnreadableShare, unreadable_answers, unreadable_responses
from agentgym.evaluation.verify.box import Limits, boxed
from agentgym.evaluation.verify.submissions import FAILED, Examined, Submission, run_places
from agentgym.io.hub import without_places
from agentgym.io.provenance import Provenance
from agentgym.site.boards import scores_of
from agentgym.site.viewer_data import KEY_DIGITS, RunViewerData, write_run

if TYPE_CHECKING:
    from rich.console import Console

LISTED = 200
"""Most episodes on a run's own page; the viewer lists all."""

PROMPT_CHARACTERS = 20_000
"""Most characters of the first prompt on a page."""

Facts: TypeAlias = list[tuple[str, str]]
"""Names and values, in their order on the page."""


@dataclass(frozen=True, slots=True)
class ShownEpisodes:
    """Episodes of a run, as its page shows them."""

    films: RunViewerData | None
    """Films of the run; None where it cannot be replayed here."""
    unplayed: str
    """Reason why it cannot."""
    prompt: list[tuple[str, str]]
    """Role and text of the first messages to the model, from the transcript."""
    unreadable: tuple[UnreadableShare, ...] = ()
    """Shares of the models' replies that could not be parsed."""


@dataclass(frozen=True, slots=True)
class RunPage:
    """A run that has a page."""

    file: str
    examined: Examined
    stored: StoredRun
    shown: ShownEpisodes
    command: str
    """Command that repeats the run."""

    @property
    def films(self) -> RunViewerData | None:
        """None where its episodes cannot be played here."""
        return self.shown.films

    @property
    def run(self) -> EvalLog:
        """Its log."""
        return self.stored.log

    @property
    def request_id(self) -> str:
        """Request id that the run states."""
        return self.run.request_id

    @property
    def differing(self) -> list[str]:
        """Name of the run and episode for each episode that comes out otherwise, and at which step."""
        episodes = () if self.films is None else self.films.episodes
        return [
            f"{self.run.folder_name}: {e.label}/{e.task_id}/{e.rollout} at step {e.differs_at}"
            for e in episodes
            if e.differs_at is not None
        ]


def run_pages(
    out: Path,
    examined: Iterable[Examined],
    results: Path,
    *,
    suites: Mapping[str, Path],
    allow: Collection[str] = (),
    limits: Limits | None = None,
    regret: bool = False,
) -> list[RunPage]:
    """Play the episodes of all runs that can be read, each in a box, for their pages.

    Runs of one request share its id: of those that are good the first by result id has it in its page's name,
    others the digits of their ``run.json``. ``regret`` as `EpisodeView.play`; others as `examine_below`.
    """
    # good ones first, so that a changed copy never takes the original run's name
    readable = [(each, each.run) for each in examined if each.run is not None]
    readable.sort(key=lambda pair: (not isinstance(pair[0].found, Submission), pair[1].log.result_id or ""))
    pages, keys = [], set[str]()
    for each, run in readable:
        key = _key(run, keys)
        keys.add(key)
        places = run_places(each.path, suites)
        box: Any = {**places, "files": [*places["files"], each.path], "writes": [out]}
        try:
            shown = boxed(_shown, out, run, key, regret, **box, allow=allow, limits=limits)
        except UsageError as error:  # a limit of the reader
            shown = ShownEpisodes(None, str(error), [])
        command = verify_command(each, results, suites, allow)
        pages.append(RunPage(f"run-{key}.html", each, run, shown, command))
    return pages


def _key(run: StoredRun, taken: Collection[str]) -> str:
    key = run.log.request_id[:KEY_DIGITS]
    if re.fullmatch(r"[0-9a-f]{12}", key) and key not in taken:
        return key
    digests = (hashlib.sha256(f"{run.run_sha256} {number}".encode()).hexdigest() for number in count())
    return next(key for digest in digests if (key := digest[:KEY_DIGITS]) not in taken)


def _shown(
    out: Path, run: StoredRun, key: str, regret: bool, *, allow: Collection[str], console: Console | None
) -> ShownEpisodes:
    """Play a run's episodes, in the box."""
    prompt: list[tuple[str, str]] = []
    try:
        prompt = _first_prompt(run)
        films = write_run(out, run, key=key, regret=regret, allow=allow)
        unread = (*unreadable_responses(run), *unreadable_answers(run))
        return ShownEpisodes(films, "", prompt, unread)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001  # whatever is in a run's files, the others have their pages
        known = isinstance(error, UsageError | OSError)
        reason = str(error) if known else f"{FAILED}: {type(error).__name__}: {error}"
        return ShownEpisodes(None, reason.replace(str(run.folder), run.folder.name), prompt)


def verify_command(
    each: Examined, results: Path, suites: Mapping[str, Path], allow: Collection[str] = ()
) -> str:
    """Return the command that executes a run again, from the folder that holds the results."""
    place = Path(results.resolve().name) / each.path.relative_to(results)
    words = ["agentgym", "verify", str(place)]
    if each.run is not None and each.run.log.suite.name in suites:
        words += ["--suite", suites[each.run.log.suite.name].name]
    for reference in allow:
        words += ["--allow", reference]
    return shlex.join(words)


def run_page(
    page: RunPage, boards: Sequence[Board], training: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """Return a run's data for the template; ``training`` has training runs by the name of their folder."""
    run, each = page.run, page.examined
    place = next(
        (
            (f"board-{number}.html", rank_cell(row, board.rows))
            for number, board in enumerate(boards, start=1)
            for row in board.rows
            if isinstance(each.found, Submission) and run.result_id in row.results
        ),
        None,
    )
    reason = "" if isinstance(each.found, Submission) else each.found.reason
    episodes = [] if page.films is None else page.films.episodes
    listed = sorted(episodes, key=lambda e: (e.differs_at is None, e.number))[
        :LISTED
    ]  # the differing ones first
    return {
        "key": page.file[4:-5],
        "run": run,
        "name": run.agent.display_name,
        "board": place,
        "reason": reason,
        "scores": scores_of(each.found) if isinstance(each.found, Submission) else None,
        "films": page.films,
        "unplayed": page.shown.unplayed,
        "listed": listed,
        "differing": []
        if page.films is None
        else [e for e in page.films.episodes if e.differs_at is not None],
        "command": page.command,
        "asked": _asked(run),
        "places": [_place(stretch) for stretch in run.provenance],
        "verdict": _verdict(each),
        "problems": () if each.verdict is None else each.verdict.problems,
        "prompt": page.shown.prompt,
        "unreadable": page.shown.unreadable,
        "endpoints": [_endpoint(endpoint) for endpoint in run.endpoints],
        "training": training.get(run.agent.model.training_run),
    }


def _asked(run: EvalLog) -> Facts:
    agent, model = run.agent, run.agent.model
    options = without_places(agent.options, FILE_OPTIONS)
    facts = [
        ("Suite", f"{run.suite.name}, version {run.suite.version}"),
        ("Suite sha256", run.suite_sha256),
        ("Environments", " · ".join(env.env.label for env in run.played)),
        ("Attempts per task", str(run.suite.attempts)),
        ("Seed of the suite", str(run.suite.seed)),
        ("Agent", f"{agent.name} ({agent.kind})"),
        ("Options", canonical_json(options) if options else ""),
        ("Sampling", canonical_json(agent.sampling) if agent.sampling else ""),
        ("Parser", agent.parser),
        ("Algorithm", model.algorithm),
        ("Base model", model.base_model),
        ("Weights sha256", model.weights_sha256),
        ("Training run", model.training_run),
        ("Training seed", "" if model.training_seed is None else str(model.training_seed)),
        ("Training episodes", f"{model.training_episodes:,}" if model.training_episodes else ""),
        ("Tokens sampled in training", f"{model.training_tokens:,}" if model.training_tokens else ""),
        (
            "GPU-seconds of training",
            f"{model.training_gpu_seconds:,.0f}" if model.training_gpu_seconds else "",
        ),
        ("Checkpoint", model.checkpoint if model.weights_sha256 else ""),
        ("Trained on", agent.card.training_data),
        ("Licence", agent.card.licence),
        ("Contact", agent.card.contact),
        ("Request id", run.request_id),
        ("Result id", run.result_id or ""),
        ("Record id", run.record_id or ""),
    ]
    return [(name, value) for name, value in facts if value]


def _place(stretch: Provenance) -> Facts:
    commit = stretch.commit or "installed package"
    packages = ", ".join(f"{name} {version}" for name, version in sorted(stretch.packages.items()))
    return [
        ("Date", stretch.date),
        ("agentgym", f"{stretch.agentgym}, {commit}{', with changes' if stretch.dirty else ''}"),
        ("Python", stretch.python),
        ("Packages", packages),
        ("Machine", stretch.hardware),
    ]


def _verdict(each: Examined) -> Facts:
    verdict = each.verdict
    if verdict is None:
        return []
    facts = [
        ("Badge", verdict.earned if verdict.ok else "none"),
        ("Checked", f"{verdict.episodes:,} episodes, {verdict.steps:,} steps"),
        ("Role", verdict.role),
    ]
    if verdict.model is not None:
        facts.append(("Model", canonical_json(asdict(verdict.model))))
    return facts


def _first_prompt(run: StoredRun) -> list[tuple[str, str]]:
    try:
        transcripts = run.transcripts().values()
    except UsageError:
        return []  # verification reports the file's error
    first = next((record for record in transcripts if record.steps and record.steps[0].messages), None)
    if first is None:
        return []
    return [(message.role, message.text[:PROMPT_CHARACTERS]) for message in first.messages(0)]


def _endpoint(endpoint: RunEndpoint) -> Facts:
    facts = [
        ("Model", endpoint.model),
        ("Server", endpoint.url),
        ("Asked by", ", ".join(endpoint.asked_by)),
    ]
    for name, value in sorted(endpoint.probe.items()):
        text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        if text and name not in ("url", "model"):
            facts.append((name.replace("_", " "), text))
    return facts
