"""References as strings, ``"agentgym.module:name"``: arrows between layers that import-linter cannot see."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = re.compile(r"agentgym(\.\w+)+:\w+")

STAGES = "an algorithm's stages need torch; the trainer opens them when it trains by the algorithm"

UPWARD = {
    ("agentgym.agents.table", "agentgym.inference.policy.recomputation"): (
        "the agent `model` is checked by engines, as it is made by them"
    ),
    ("agentgym.agents.table", "agentgym.inference.policy.agent"): (
        "the agent `model` is made by engines, and opened by name like an outside one: nothing "
        "of it is imported until it is asked for, and it needs an extra"
    ),
    ("agentgym.algos.algorithm", "agentgym.training.stages.outcome"): STAGES,
    ("agentgym.algos.istar", "agentgym.training.stages.reward_model"): STAGES,
    ("agentgym.algos.ppo", "agentgym.training.stages.outcome"): STAGES,
    ("agentgym.algos.prime", "agentgym.training.stages.reward_model"): STAGES,
    ("agentgym.algos.spo3", "agentgym.training.stages.branching.collector"): STAGES,
    ("agentgym.algos.steppo", "agentgym.training.stages.outcome"): STAGES,
    ("agentgym.algos.vine", "agentgym.training.stages.state_values"): STAGES,
    ("agentgym.evaluation.verify.submissions", "agentgym.credit.regret"): (
        "regret needs replays and planners; it is computed where a suite's file shows it, after verification"
    ),
    ("agentgym.registration", "agentgym.serving.env.client"): (
        "environments on a server are opened by id like any other, and their client is of the server's room"
    ),
}
"""(module, module that it names in a higher layer) -> why."""


@cache
def references():
    """Return (module, reference) for each string of the package that is one; docstrings are not."""
    found = []
    for path in sorted((ROOT / "agentgym").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        text = path.read_text(encoding="utf-8")
        if not REFERENCE.search(text):
            continue
        for node in ast.walk(ast.parse(text)):
            value = node.value if isinstance(node, ast.Constant) else None
            if isinstance(value, str) and REFERENCE.fullmatch(value):
                found.append((module, value))
    return found


def layers():
    """Return the height of each layer, by its name in the contract of import-linter; 0 is the lowest."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = (contract for contract in config["contracts"] if contract["id"] == "layers")
    rows = [re.findall(r"[\w.]+", row) for row in reversed(contract["layers"])]
    heights = {name: height for height, names in enumerate(rows) for name in names}
    return {**heights, "vector": heights["vector.core"]}


def height_of(module):
    """Return the height of a module's layer."""
    name, heights = module.removeprefix("agentgym."), layers()
    while name not in heights:
        name, dot, _ = name.rpartition(".")
        assert dot, f"{module} is in no layer of pyproject.toml"
    return heights[name]


def names_in(tree):
    """Yield what a module defines at its top level."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


@pytest.mark.parametrize(("module", "reference"), references())
def test_a_reference_names_what_is_there(module, reference):
    """Without importing it: some need packages of extras."""
    target, _, name = reference.partition(":")
    path = ROOT.joinpath(*target.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    assert name in set(names_in(ast.parse(file.read_text(encoding="utf-8"))))


def test_references_point_down_but_for_those_listed():
    upward = {
        (module, target)
        for module, reference in references()
        if height_of(target := reference.partition(":")[0]) > height_of(module)
    }
    assert upward == set(UPWARD)


def test_there_are_references():
    found = {module for module, _ in references()}
    assert {"agentgym.registration", "agentgym.agents.table", "agentgym.envs.sokoban.suite"} <= found
