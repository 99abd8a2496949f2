"""Honest runs of a small suite, and what is published of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from agentgym.agents.metadata import Model
from agentgym.agents.random import make_random
from agentgym.agents.scripted import make_scripted
from agentgym.core.types import Completion, Message, Policy, Request
from agentgym.endpoint.ledger import LedgerRow
from agentgym.errors import UnsupportedEnvError
from agentgym.evaluation.board.boards import Board, make_boards
from agentgym.evaluation.board.exports import as_csv, as_json, latex
from agentgym.evaluation.board.published import Published
from agentgym.evaluation.board.tables import markdown
from agentgym.evaluation.log.endpoint_runs import CALLS_FILE
from agentgym.evaluation.log.judge_spread import (
    SPREAD_SCHEMA,
    JudgedAgain,
    JudgeSpread,
    read_spread,
    write_spread,
)
from agentgym.evaluation.log.results import RUN_FILE, EvalSample
from agentgym.evaluation.log.runfiles import read_episodes, read_run
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.suites.suite import AgentCard, SuiteAgent
from agentgym.evaluation.verify.archives import open_run
from agentgym.evaluation.verify.packed import pack_run
from agentgym.evaluation.verify.submissions import Submission, Unranked, verify_below
from agentgym.evaluation.verify.submit import pack_submission
from agentgym.vector.core import AgentVectorEnv
from benchmarks.fuzz.asking import REFERENCE
from benchmarks.fuzz.changes import sample

NAME = "fuzz"

SUITE = f"""\
name = "{NAME}"
version = "1"
seed = 7
attempts = 2
floor = "random"
oracle = "oracle"

[[env]]
id = "agentgym/EZPoints-v0"
label = "EZPoints"
split = "test"
tasks = 3
by_type = true

[[env]]
id = "agentgym/Sokoban-v0"
label = "Sokoban"
split = "test"
tasks = 2
metric = "score"
measures = ["spl", "won_15"]
kwargs = {{ dim_room = [6, 6], num_boxes = 1, max_steps = 12 }}

[[agent]]
name = "random"
kind = "random"

[[agent]]
name = "oracle"
kind = "oracle"

[[agent]]
name = "rules"
kind = "rules"
"""

ASKING_NAME = "fuzz-answers"

ASKING_SUITE = f"""\
name = "{ASKING_NAME}"
version = "1"
seed = 7
floor = ""
oracle = ""

[[env]]
id = "{REFERENCE}"
label = "Weigh"
split = "test"
tasks = 3

[[agent]]
name = "asker"
kind = "random"
"""

NARROW = "benchmarks.fuzz.arena:make_narrow"
"""An agent that does not play all of the suite."""

ALLOW = (NARROW, REFERENCE)
"""References of the runs."""

MODEL = "benchmarks.fuzz.arena:make_model"
"""An agent that does not play again from its request alone."""

STATED_RESULTS = ("tokens_per_success", "cost_per_success", "format_errors")
"""Results that are made of the submitter's word."""

COLUMNS = ("measures",)
"""Results that a suite's choice of columns shows or leaves out."""

ENDS = ("ends", "errors")
"""Results that tell which error ended an episode."""


def make_narrow(envs: AgentVectorEnv) -> Policy:
    """Make an agent that plays EZPoints alone."""
    if envs.prototype.suite != "ezpoints":
        raise UnsupportedEnvError("narrow plays EZPoints alone")
    return make_random(envs)


class _StandIn:
    """Plays a script and says what a model would."""

    def __init__(self, scripted: Policy):
        self._scripted = scripted

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer with text, tokens and costs."""
        return [
            replace(
                completion,
                text=f"<action>{completion.action}</action>",
                messages=(Message("system", "You play.\n\nAnswer in tags."), Message("user", "What now?")),
                prompt_ids=(1, 2, 3 + request.turn),
                response_ids=(5, 6),
                logprobs=(-0.5, -0.25),
                prompt_tokens=3,
                completion_tokens=2,
                cost=(1 + request.turn) / 1024,
                format_error="no tag" if request.turn == 1 else "",
            )
            for request, completion in zip(requests, self._scripted.act(requests), strict=True)
        ]


def make_model(envs: AgentVectorEnv, path: str) -> Policy:
    """Make an agent that stands for a model.

    Args:
        envs: what it plays.
        path: its script, see `agentgym.agents.scripted`.
    """
    return _StandIn(make_scripted(envs, path))


@dataclass(frozen=True, slots=True)
class Arena:
    """Verified runs, and a page of them."""

    root: Path
    suite_file: Path
    results: Path
    folders: dict[str, Path]
    """Of each run, by its agent's name."""
    packed: dict[str, Path]
    """The same runs packed."""
    archived: dict[str, Path]
    """Some of them as they are sent in."""
    found: tuple[Submission | Unranked, ...]
    """The runs by path."""
    paths: tuple[Path, ...]
    """Folder of each of `found`."""
    pages: dict[str, bytes]
    """`pages` of them."""

    def with_run(self, agent: str, run: Submission | Unranked) -> list[Submission | Unranked]:
        """Return the verified runs with another in the place of an agent's."""
        index = self.paths.index(self.folders[agent])
        return [*self.found[:index], run, *self.found[index + 1 :]]

    def spread(self, agent: str) -> JudgeSpread | None:
        """Return what an agent's run states of its judge."""
        return read_spread(self.folders[agent], read_run(self.folders[agent]).request_id)


def make_arena(root: Path) -> Arena:
    """Play the suite with agents that play again and with one that does not, and publish it.

    The latter, ``model``, has transcripts, tokens, costs, an episode that a machine's fault ended and that
    was played again, and one whose second attempt failed too.
    """
    suite_file = root / "suites" / f"{NAME}.toml"
    suite_file.parent.mkdir(parents=True)
    suite_file.write_text(SUITE)
    results = root / "results"
    (oracle,) = run_bench(suite_file, results, agents=["oracle"])
    narrow = SuiteAgent("narrow", NARROW)
    run_bench(suite_file, results, agents=["random", "rules", "narrow"], further=[narrow])
    _play_model(suite_file, results, read_episodes(oracle), root / "script.jsonl")
    _play_asker(suite_file.with_name(f"{ASKING_NAME}.toml"), results)
    runs = [path.parent for path in results.glob(f"*/*/{RUN_FILE}")]
    opened = {run.log.agent.name: run for run in map(open_run, runs)}
    folders = {name: run.folder for name, run in opened.items()}
    packed = {name: pack_run(run, root / "packed", allow=ALLOW) for name, run in opened.items()}
    archived = {
        name: pack_submission(opened[name], root / "archived", allow=ALLOW) for name in ("model", "asker")
    }
    paths = tuple(sorted(folders.values()))
    found = tuple(verify_below(results, allow=ALLOW))
    for entry in found:
        if isinstance(entry, Unranked):
            raise AssertionError(f"an honest run is not ranked: {entry.name}: {entry.reason}")
    return Arena(root, suite_file, results, folders, packed, archived, found, paths, pages(found))


def _play_asker(suite_file: Path, results: Path) -> None:
    """Play what rests on recorded answers; write what runs that ask endpoints have besides."""
    suite_file.write_text(ASKING_SUITE)
    (folder,) = run_bench(suite_file, results)
    run = read_run(folder)
    judged = JudgedAgain("fuzz scale", ("Weigh/0/0",), 1, {"score": 0.25})
    write_spread(folder, JudgeSpread(SPREAD_SCHEMA, run.request_id, 3, 5, {"Weigh": judged}))
    (folder / CALLS_FILE).write_text(f"{json.dumps(sample(LedgerRow))}\n")


def _play_model(suite_file: Path, results: Path, solved: Sequence[EvalSample], script: Path) -> None:
    """Play with two scripts: what the first leaves open the second plays again, but for one task."""
    actions = {episode.task_id: list(episode.actions) for episode in solved}
    first, second, third, *_ = actions
    actions[third] = ["no such action", *actions[third]]  # an invalid one
    agent = SuiteAgent(
        "model",
        MODEL,
        options={"path": str(script)},
        sampling={"temperature": 1.0, "top_p": 0.95},
        parser="tags",
        prompt_sha256="ab" * 32,
        model=Model("GiGPO", "base-1b", "cd" * 32, "run-7", 3, 100, 20_000, 12.5, "last"),
        card=AgentCard("someone@example.org", "Apache-2.0", "levels of split train"),
    )
    for open_tasks in ((first, second), (second,)):
        lines = [
            {"task_id": task, "actions": played[:-1] if task in open_tasks else played}
            for task, played in actions.items()
        ]
        script.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        run_bench(suite_file, results, agents=["model"], further=[agent])


# --- what is published ------------------------------------------------------------------------------


def pages(found: Sequence[Submission | Unranked]) -> dict[str, bytes]:
    """Return every file that is published of some runs, by its suffix."""
    boards, unranked = make_boards(found)
    texts = {
        ".md": markdown(boards, Published(), unranked=unranked),
        ".json": as_json(boards, Published(), unranked),
        ".csv": as_csv(boards),
        ".tex": latex(boards),
    }
    return {suffix: text.encode() for suffix, text in texts.items()}


def ranking(found: Sequence[Submission | Unranked], *, without: Sequence[str] = ()) -> str:
    """Return all that the submitter's word must not touch: ranks, scores, intervals, roles, badges, tests.

    Args:
        found: verified runs.
        without: fields of `agentgym.evaluation.board.scoring.EnvResult` that the submitter states.
    """
    boards, unranked = make_boards(found)
    return repr([[_ranking(board, without) for board in boards], len(unranked)])


def _ranking(board: Board, without: Sequence[str]) -> list[Any]:
    rows = []
    for row in board.rows:
        results = {
            label: {key: value for key, value in asdict(result).items() if key not in without}
            for label, result in row.envs.items()
        }
        gaps = [gap.label for gap in row.left_out]
        rows.append(repr((row.role, row.badge, row.rank, results, gaps, row.aggregate)))
    tests = [repr((abs(c.difference), c.standard_error, c.p, c.p_holm)) for c in board.comparisons]
    told = (board.suite, board.suite_sha256, board.envs, board.left_out, board.families, board.scales)
    return [sorted(rows), sorted(tests), repr((*told, board.detectable)), len(board.unranked)]
