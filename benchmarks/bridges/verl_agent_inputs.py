"""What verl-agent's workers read: a copy of a checkout, with games, products and an index in place."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path, PurePosixPath
from typing import Any

from agentgym.data.directory import find
from agentgym.envs.alfworld.env import ALFWorldEnv
from agentgym.envs.alfworld.oracle import first_plan
from agentgym.envs.webshop.data.importer import open_catalogue
from agentgym.envs.webshop.engine.goals import Prices
from agentgym.errors import UsageError
from benchmarks.bridges.verl_agent_peer import WEBSHOP
from benchmarks.speed.webshop_original import write_inputs

COPIED = ("agent_system", "examples/gigpo_trainer", "gigpo", "verl")
GAMES = {"train": 100, "valid_seen": 80}
"""How many of the published games are unpacked, by split."""

UNPACKED = ("game.tw-pddl", "traj_data.json")
QUOTES = "'\""


class Workspace:
    """A folder in which a copy of a checkout finds its data."""

    def __init__(self, checkout: Path, folder: Path):
        """Copy what is needed of a checkout."""
        self.folder, self.checkout = folder, folder / "checkout"
        self.games = folder / "alfworld"
        for name in COPIED:
            if not (checkout / name).is_dir():
                raise UsageError(f"{checkout} has no {name}: name a checkout of verl-agent")
            shutil.copytree(checkout / name, self.checkout / name, dirs_exist_ok=True)

    def settings(self, suite: str) -> list[str]:
        """Return what the checkout's own script for GiGPO on a suite sets of environments and rows."""
        text = (self.checkout / "examples" / "gigpo_trainer" / f"run_{suite}.sh").read_text(encoding="utf-8")
        variables = dict(re.findall(r"^(\w+)=(\S+)", text, re.MULTILINE))
        pattern = r"^\s+((?:env|data\.(?:train|val)_batch_size)\S*?)=(\S+)"
        found = re.findall(pattern, text, re.MULTILINE)
        return [f"{name}={variables.get(value.lstrip('$'), value).strip(QUOTES)}" for name, value in found]

    def environment(self) -> dict[str, str]:
        """Return the variables of a process that runs the checkout."""
        path = os.pathsep.join([str(Path.cwd()), str(self.checkout)])
        return {**os.environ, "PYTHONPATH": path, "ALFWORLD_DATA": str(self.games), "RAY_DEDUP_LOGS": "0"}

    def run(self, module: str, *arguments: str) -> None:
        """Run a module of this folder with the checkout; UsageError with its last line where it fails."""
        command = [sys.executable, "-W", "ignore", "-m", f"benchmarks.bridges.{module}", *arguments]
        done = subprocess.run(command, env=self.environment(), capture_output=True, text=True)
        if done.returncode:
            cause = done.stderr.partition("Exception ignored")[0].strip()  # what Ray says of its end follows
            raise UsageError(f"{module} has failed: {cause[-2000:]}")

    # ---- data ------------------------------------------------------------------------------------------

    def unpack(self) -> None:
        """Unpack ALFWorld's games, unless they are there."""
        for split, count in GAMES.items():
            if not (self.games / "json_2.1.1" / split).is_dir():
                _unpack(split, count, self.games / "json_2.1.1")

    def alfworld(self) -> dict[str, Any]:
        """Unpack games; return a plan for each."""
        self.unpack()
        plans = {}
        for split in GAMES:
            env = ALFWorldEnv(split=split, dataset=str(self.games))
            for task in env.tasks:
                plan = first_plan(task.content, env.dialect) or ()
                plans[task.source_id] = [operation.command for operation in plan]
        return {"plans": plans}

    def webshop(self) -> dict[str, Any]:
        """Write products, attributes and the index of the search; return prices for all products."""
        inputs = self.folder / "webshop"
        inputs.mkdir()
        write_inputs(inputs, [], {})
        data = self.checkout / WEBSHOP / "data"
        data.mkdir(exist_ok=True)
        for name, read in (
            ("items", "items_shuffle_1000"),
            ("attributes", "items_ins_v2_1000"),
            ("human", "items_human_ins"),
        ):
            shutil.copyfile(inputs / f"{name}.json", data / f"{read}.json")
        index = self.checkout / WEBSHOP / "search_engine" / "indexes"
        self.run("verl_agent_peer", "--index", str(inputs / "documents"), str(index))
        products, prices = open_catalogue("webshop/small"), Prices()
        named = (products.product(i) for i in range(len(products)))
        return {"prices": {product.asin: prices.of(product) for product in named}}

    def sokoban(self) -> dict[str, Any]:
        """Return nothing: rooms are generated."""
        return {}


def _unpack(split: str, count: int, folder: Path) -> None:
    """Unpack the first games of a published split."""
    games: set[tuple[str, ...]] = set()
    with tarfile.open(find(f"alfworld/json_2.1.1_{split}.tar.xz")) as archive:
        for member in archive:
            path = PurePosixPath(member.name)
            content = archive.extractfile(member) if path.name in UNPACKED else None
            if content is None:
                continue
            games.add(path.parts[-3:-1])
            if len(games) > count:
                return
            target = folder.joinpath(split, *path.parts[-3:])
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.read())
