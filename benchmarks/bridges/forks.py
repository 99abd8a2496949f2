"""Forks of verl-agent over our environments, by no diff: ``python -m benchmarks.bridges.forks CHECKOUTS``.

Of each checkout in a folder, its trainers are run as `agentgym.bridges.verl_agent` runs them, with an option
that our environments refuse: the refusal, from within the trainer's Ray task, shows that they are in place.
Then its own managers play 80 steps of each suite over our environments, compared with verl-agent's own
(``--base``), and 200 episodes of Search over ours and over its own workers, by one retrieval server.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from agentgym.envs.multihop.builtin.articles import builtin_passages
from agentgym.envs.multihop.builtin.tasks import builtin_questions
from agentgym.errors import UsageError
from agentgym.retrieval.searcher import search_in_memory
from agentgym.serving.retrieval.app import RetrievalService
from agentgym.serving.retrieval.server import RetrievalServer
from benchmarks.bridges.forks_peer import ROWS, SUITES
from benchmarks.harness.report import machine, parser, publish, table
from benchmarks.speed.webshop_original import commit_of

OUT = Path(__file__).with_suffix(".json")
STEPS, EPISODES = 80, 200
BASE = "d0b97244c50f17fb43a6ef0a15bca0e95a044ff7"
"""verl-agent at d0b9724, with which forks are compared."""

FIELDS = ("episode", "prompt", "anchor", "response", "reward", "end", "validity", "won")
COMPARED = ("prompt", "anchor", "reward", "end", "validity", "won")
PACKAGES = ("ray", "torch", "transformers", "omegaconf", "hydra-core", "tensordict")
REFUSED = "unknown anchor 'nonsense'"
PROBE = (
    *("env.env_name=Webshop", "data.train_batch_size=2", "data.val_batch_size=4"),
    *("+env.agentgym.anchor=nonsense", "actor_rollout_ref.model.path=/nowhere"),
)
MAX_STUBS = 12

STUBS = """
import os, sys
from importlib.machinery import ModuleSpec
from types import ModuleType
NAMES = [name for name in os.environ["FORK_STUBS"].split(",") if name]
class Stub(ModuleType):
    __path__ = []
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda self, *given, **named: None})
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if any(f"{name}.".startswith(f"{each}.") for each in NAMES):
            return ModuleSpec(name, Finder, is_package=True)
    @staticmethod
    def create_module(spec):
        return Stub(spec.name)
    @staticmethod
    def exec_module(module):
        pass
sys.meta_path.insert(0, Finder)
"""
"""Module ``sitecustomize`` of a checkout's processes: empty classes in place of what cannot be imported."""


class Fork:
    """A checkout, and how its processes are run."""

    def __init__(self, checkout: Path, folder: Path, only: Sequence[str] = ()):
        """Write the module of stubs; ``only``: names of the trainers that are run, without it all."""
        self.checkout, self.folder, self.only, self.stubs = checkout, folder, only, list[str]()
        (folder / "sitecustomize.py").write_text(STUBS, encoding="utf-8")

    def run(self, module: str, *arguments: str) -> str:
        """Run a module in the checkout's folder; return what it prints, problems at the end."""
        path = os.pathsep.join([str(self.folder), str(Path.cwd())])
        env = {**os.environ, "PYTHONPATH": path, "FORK_STUBS": ",".join(self.stubs), "RAY_DEDUP_LOGS": "0"}
        command = [sys.executable, "-W", "ignore", "-m", module, *arguments]
        done = subprocess.run(command, cwd=self.checkout, env=env, capture_output=True, text=True)
        return done.stdout + done.stderr

    def retry(self, module: str, *arguments: str) -> str:
        """Run a module as often as another import of it needs a stub; return the last output."""
        for _ in range(MAX_STUBS):
            output = self.run(module, *arguments)
            missing = re.search(
                r"No module named '([\w.]+)'|cannot import name '\w+' from '([\w.]+)'", output
            )
            name = missing and (missing[1] or missing[2])
            if not name or name in self.stubs or output.count(REFUSED):
                return output
            self.stubs.append(name)
        return output

    def trainers(self) -> list[str]:
        """Return the modules that make environments within a task of Ray."""
        files = [
            path for part in ("verl/trainer", "recipe") for path in self.checkout.glob(f"{part}/**/main_*.py")
        ]
        texts = {path: path.read_text(encoding="utf-8") for path in sorted(files)}
        named = [
            path.relative_to(self.checkout).with_suffix("")
            for path, text in texts.items()
            if "make_envs" in text
        ]
        return [".".join(path.parts) for path in named if not self.only or path.name in self.only]

    def suites(self) -> list[str]:
        """Return those of our suites that the checkout has."""
        packages = self.checkout / "agent_system" / "environments" / "env_package"
        return [suite for suite in SUITES if (packages / suite / "projection.py").exists()]

    def code(self, suite: str) -> dict[str, str]:
        """Return the syntax trees of a suite's modules but its projection, without blanks and comments."""
        folder = self.checkout / "agent_system" / "environments" / "env_package" / suite
        files = [path for path in folder.rglob("*.py") if path.name != "projection.py"]
        texts = {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in files}
        return {name: ast.dump(ast.parse(text)) for name, text in texts.items()}

    def play(self, name: str, *arguments: str) -> dict[str, Any]:
        """Play by the managers; return what `benchmarks.bridges.forks_peer` writes."""
        out = self.folder / f"{name}.json"
        output = self.retry("benchmarks.bridges.forks_peer", str(out), *arguments)
        if not out.exists():
            raise UsageError(f"{self.checkout.name} does not play: {output.strip()[-1000:]}")
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return found


@contextmanager
def retrieval_server() -> Iterator[str]:
    """Serve the built-in passages at an address of this machine."""
    service = RetrievalService(search_in_memory(builtin_passages(), corpus="multihop builtin"))
    with RetrievalServer("127.0.0.1", 0, service) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"{server.url}/retrieve"
        finally:
            server.stop()
            thread.join()


def questions() -> list[list[dict[str, Any]]]:
    """Return rounds of questions, as data files of the checkouts have them."""
    asked = [task.content for task in builtin_questions("searchqa", "test")[:EPISODES]]
    rows = [
        {
            "question": one.question,
            "ground_truth": {"target": [one.answer, *one.aliases]},
            "data_source": "nq",
        }
        for one in asked
    ]
    return [rows[start : start + ROWS] for start in range(0, len(rows), ROWS)]


def differences(ours: Sequence[Sequence[Any]], theirs: Sequence[Sequence[Any]]) -> dict[str, int]:
    """Return in how many steps each field differs; a step that one side lacks differs in all."""
    places = {name: FIELDS.index(name) for name in COMPARED}
    lacking = abs(len(ours) - len(theirs))
    return {
        name: lacking + sum(one[place] != other[place] for one, other in zip(ours, theirs, strict=False))
        for name, place in places.items()
    }


def summary(played: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a suite's steps come to."""
    steps = played["steps"]
    prompts = "\0".join(step[FIELDS.index("prompt")] for step in steps)
    return {
        **{"panel": played["panel"], "steps": len(steps), "episodes": len({step[0] for step in steps})},
        "valid": sum(step[FIELDS.index("validity")] for step in steps),
        "prompts": hashlib.sha256(prompts.encode()).hexdigest()[:16],
        "differences": differences(steps, base["steps"]),
    }


def reach(fork: Fork, base: Fork, url: str) -> dict[str, Any]:
    """Run each trainer as far as to the environments."""
    trainers = {}
    for trainer in fork.trainers():
        output = fork.retry("agentgym.bridges.verl_agent", trainer, *PROBE)
        last = [line for line in output.splitlines() if line.strip()][-1:]
        trainers[trainer] = {"reached": REFUSED in output, "output": [] if REFUSED in output else last}
    return {"trainers": trainers, "stubs": fork.stubs}


def play_suites(fork: Fork, base: Fork, url: str) -> dict[str, Any]:
    """Play each suite over our environments, by the fork's managers and by verl-agent's."""
    theirs = base.play("base", *base.suites(), "--steps", str(STEPS))
    ours = fork.play("ours", *fork.suites(), "--steps", str(STEPS))
    return {"suites": {suite: summary(ours[suite], theirs[suite]) for suite in fork.suites()}}


def play_search(fork: Fork, base: Fork, url: str) -> dict[str, Any]:
    """Play Search over our environments and over the fork's own workers."""
    asked = fork.folder / "questions.json"
    asked.write_text(json.dumps(questions()), encoding="utf-8")
    given = ("search", "--url", url, "--questions", str(asked))
    ours, own = (
        fork.play("ours", *given)["search"]["steps"],
        fork.play("own", *given, "--own")["search"]["steps"],
    )
    counted = {"episodes": len({step[0] for step in ours}), "steps": len(ours)}
    won = sum(step[FIELDS.index("won")] for step in ours)
    return {"search": {**counted, "won": won, "differences": differences(ours, own)}}


def compare_workers(fork: Fork, base: Fork, url: str) -> dict[str, Any]:
    """Name the modules of each suite's workers that are other code than verl-agent's."""
    found = {}
    for suite in fork.suites():
        trees = [each.code(suite) for each in (fork, base)]
        names = sorted(trees[0].keys() | trees[1].keys())
        found[suite] = [name for name in names if trees[0].get(name) != trees[1].get(name)]
    return {"workers": found}


PARTS = {"trainers": reach, "suites": play_suites, "search": play_search, "workers": compare_workers}
"""What is found out of a fork, by name."""


def main() -> int:
    """Examine every checkout and write the report; 1 where a fork does not run over our environments."""
    given = parser(__spec__.name, __doc__, OUT)
    given.add_argument("checkouts", type=Path, help="folder of checkouts")
    given.add_argument(
        "--parts", nargs="+", choices=PARTS, default=list(PARTS), help="others stay as reported"
    )
    given.add_argument("--trainers", nargs="*", default=[], help="names such as main_sdar; all without it")
    options = given.parse_args()
    here = sorted(
        each for each in options.checkouts.iterdir() if (each / "agent_system/environments").is_dir()
    )
    bases = [each for each in here if commit_of(each) == BASE]
    if not bases:
        raise UsageError(
            f"{options.checkouts} has no verl-agent at {BASE[:10]}, with which forks are compared"
        )
    written = options.out.with_suffix(".json")
    report = json.loads(written.read_text(encoding="utf-8")) if written.exists() else {"forks": {}}
    report["versions"] = {package: version(package) for package in PACKAGES}
    report["machine"] = f"{machine()['cpu'].partition(',')[0]}, {os.cpu_count()} cores"
    with retrieval_server() as url:
        for checkout in here:
            found = report["forks"].setdefault(checkout.name, {})
            found["commit"] = commit_of(checkout)
            for part in options.parts:
                with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
                    fork = Fork(checkout, Path(one), options.trainers)
                    found |= PARTS[part](fork, Fork(bases[0], Path(other)), url)
                written.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    publish(options.out, report, markdown(report))
    forks = report["forks"].values()
    return int(not all(trainer["reached"] for fork in forks for trainer in fork["trainers"].values()))


def markdown(report: Mapping[str, Any]) -> str:
    """Write the report for people."""
    versions = ", ".join(f"{name} {number}" for name, number in report["versions"].items())
    lines = [
        "# Forks of verl-agent over these environments",
        "",
        *INTRODUCTION,
        "",
        f"{report['machine']}. {versions}.",
    ]
    for name, fork in report["forks"].items():
        lines += ["", f"## {name} at {fork['commit'][:10]}", ""]
        rows = [
            (f"`{trainer}`", "yes" if found["reached"] else f"no: {''.join(found['output'])[:160]}")
            for trainer, found in fork["trainers"].items()
        ]
        lines += [*table(("trainer", "our environments in its Ray task"), rows), ""]
        stubs = ", ".join(f"`{each}`" for each in fork["stubs"]) or "none"
        lines += [f"Stubs: {stubs}.", ""]
        counts = ("steps", "episodes", "valid", "prompts")
        suites = [
            (
                suite,
                f"{found['panel']['name']}, {found['panel']['sha256'][:10]}",
                *(found[key] for key in counts),
                *(found["differences"][key] for key in COMPARED),
            )
            for suite, found in fork["suites"].items()
        ]
        lines += table(("suite", "panel", *counts, *(f"other {key}" for key in COMPARED)), suites)
        search = fork["search"]
        differing = ", ".join(f"{key} {count}" for key, count in search["differences"].items())
        lines += [
            "",
            f"Search beside its own workers: {search['episodes']} episodes, {search['steps']} steps, ",
        ]
        lines[-1] += f"{search['won']} answers right; steps that differ: {differing}."
        others = [f"`{suite}/{name}`" for suite, names in fork["workers"].items() for name in names]
        lines += ["", f"Its workers' code is verl-agent's but for: {', '.join(others) or 'nothing'}."]
    return "\n".join(lines) + "\n"


INTRODUCTION = (
    "`make bridge-forks CHECKOUTS=folder`: no file of a checkout is changed. These trainers were started as",
    "`python -m agentgym.bridges.verl_agent TRAINER`, with an option that our environments refuse; a yes is",
    "that refusal, from within the trainer's own task of Ray. What a processor cannot import of a trainer,",
    "or what its repository lacks, has a stub. Beyond that point trainers need GPUs, and were not run.",
    "",
    f"At least {STEPS} steps of each suite follow, by the fork's own managers over our environments:",
    "scripted responses, of which in half of the rows 30 % or 50 % are malformed. `prompts` is the digest of",
    "all prompts; the last columns count steps that differ from those of verl-agent at d0b9724 over our",
    "environments: what the fork itself changes. Search was also played over its own workers, with one",
    "server of passages for both sides: there, a difference would be ours. Empty queries were left out: its",
    "workers send them to the server, ours find nothing.",
)


if __name__ == "__main__":
    raise SystemExit(main())
