import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from agentgym.algos.algorithm import Algorithm
from agentgym.algos.objective import Objective
from agentgym.algos.table import ALGORITHMS, ENTRY_POINTS, REFERENCES, find_algorithm
from agentgym.errors import UsageError
from tests.algos.episodes import batches
from tools import algorithm_table

ROOT = Path(__file__).resolve().parents[2]
NEED_TORCH = {"loss", "own_loss", "process"}
MODULES = sorted(path.stem for path in (ROOT / "agentgym" / "algos").glob("*.py") if path.stem != "__init__")


def inputs(name, batch):
    """Return what an estimator needs besides the batch, and the batch it takes."""
    rng = np.random.default_rng(0)
    if name == "ppo":
        return batch, {"values": rng.normal(size=batch.tokens.sum())}
    if name == "istar":
        return batch, {"process": rng.normal(size=len(batch))}
    if name == "prime":
        return batch.with_columns(outcome=batch.won.astype(np.float64)), {
            "q": rng.normal(size=batch.tokens.sum())
        }
    return batch, {}


@pytest.mark.parametrize("name", ALGORITHMS)
@given(batch=batches())
def test_every_algorithm_gives_finite_advantages_of_the_shape_it_promises(name, batch):
    batch, extra = inputs(name, batch)
    result = ALGORITHMS[name].advantage(batch, **extra)
    assert np.isfinite(result).all()
    assert result.dtype == np.float64
    assert result.shape == (batch.tokens.sum() if ALGORITHMS[name].unit == "token" else len(batch),)


def test_the_package_gives_the_table_when_it_is_asked_for():
    package = import_module("agentgym.algos")
    assert package.ALGORITHMS is ALGORITHMS
    with pytest.raises(AttributeError, match="nothing"):
        _ = package.nothing


@pytest.mark.parametrize("name", [name for name, algorithm in ALGORITHMS.items() if algorithm.page])
def test_a_page_is_about_its_algorithm(name):
    algorithm = ALGORITHMS[name]
    page = ROOT / "docs" / "algorithms" / f"{algorithm.page}.md"
    assert algorithm.title.removesuffix("-baseline") in page.read_text(encoding="utf-8")
    assert algorithm.paper
    assert algorithm.equation


def test_every_page_is_some_algorithms():
    pages = {path.stem for path in (ROOT / "docs" / "algorithms").glob("*.md")} - {"index", "losses"}
    assert pages == {algorithm.page for algorithm in ALGORITHMS.values() if algorithm.page}


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("ppo", {"critic", "reference"}),
        ("steppo", {"critic", "reference"}),
        ("istar", {"reward_model"}),
        ("prime", {"reward_model", "reference"}),
        ("spo3", {"snapshot", "states", "reference"}),
        ("gigpo", {"states", "reference"}),
        ("hgpo", {"states", "reference"}),
        ("graphgpo", {"states", "reference"}),
        ("g2po", {"states", "reference"}),
        ("rtmc", {"states"}),
        ("gagpo", {"states", "reference"}),
        ("sampo", {"states", "reference"}),
        ("grpo", {"reference"}),
        ("dr_grpo", set()),
        ("dapo", set()),
        ("gspo", set()),
    ],
)
def test_what_an_algorithm_needs(name, needs):
    known = ("critic", "reward_model", "snapshot", "states", "reference")
    assert {need for need in known if getattr(ALGORITHMS[name], need)} == needs
    assert ALGORITHMS[name].trainable


def test_defaults_are_those_of_the_function():
    assert ALGORITHMS["steppo"].defaults["gamma"] == 0.99
    assert ALGORITHMS["dr_grpo"].defaults["std"] is False
    assert ALGORITHMS["dapo"].defaults["max_tokens"] == 512
    with pytest.raises(TypeError, match="does not support item assignment"):
        ALGORITHMS["grpo"].defaults["std"] = False


def test_modules_of_algorithms_are_short():
    lengths = {
        reference: len(Path(import_module(module).__file__).read_text(encoding="utf-8").splitlines())
        for reference in REFERENCES.values()
        if (module := f"agentgym.algos.{reference.partition(':')[0]}")
    }
    assert {name: lines for name, lines in lengths.items() if lines > 140} == {}


# ---- algorithms of others -------------------------------------------------------------------

OTHERS = """
from agentgym.algos.algorithm import Algorithm
from agentgym.algos.grpo import ALGORITHM as GRPO, advantage
from agentgym.algos.objective import Objective

MINE = Algorithm(title="Mine", paper="none", advantage=advantage, objective=Objective(), credit="episode")
"""


@pytest.fixture
def others(tmp_path, monkeypatch):
    """A package of somebody else's, installed: a module, and the entry point ``theirs``."""
    (tmp_path / "others_algorithms.py").write_text(OTHERS)
    installed = tmp_path / "others-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1\n")
    lines = f"[{ENTRY_POINTS}]\ntheirs = others_algorithms:MINE\nbroken = others_algorithms:advantage\n"
    (installed / "entry_points.txt").write_text(lines)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("others_algorithms", None)


@pytest.mark.usefixtures("others")
def test_other_packages_add_algorithms_by_reference_and_by_entry_point():
    mine = find_algorithm("others_algorithms:MINE")
    assert (mine.title, mine.objective, mine.trainable) == ("Mine", Objective(), True)
    assert find_algorithm("theirs") is mine
    assert "theirs" not in ALGORITHMS


@pytest.mark.usefixtures("others")
def test_finding_a_built_in_algorithm_imports_no_other_package():
    find_algorithm("gigpo")
    assert "others_algorithms" not in sys.modules


@pytest.mark.usefixtures("others")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gigppo", r"unknown algorithm 'gigppo' \(did you mean 'gigpo'\?\); choose one of ppo, .*theirs"),
        ("thiers", "did you mean 'theirs'"),
        ("nowhere:MINE", "there is no module 'nowhere'"),
        ("others_algorithms:MIEN", "did you mean 'MINE'"),
        ("broken", "others_algorithms:advantage is a function, no agentgym.algos.algorithm.Algorithm"),
    ],
)
def test_what_is_no_algorithm_is_said_in_one_line(name, message):
    with pytest.raises(UsageError, match=message) as raised:
        find_algorithm(name)
    assert "\n" not in str(raised.value)


def test_only_losses_import_torch():
    code = (
        "import importlib, sys; sys.modules['torch'] = None\n"
        f"for module in {[module for module in MODULES if module not in NEED_TORCH]}:\n"
        "    importlib.import_module(f'agentgym.algos.{module}')"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("page", ["docs/algorithms/index.md"])
def test_the_table_on_the_pages_is_up_to_date(page):
    """`python -m tools.algorithm_table` writes it."""
    assert algorithm_table.updated(ROOT / page) == (ROOT / page).read_text(encoding="utf-8")


def test_records_are_frozen():
    assert Algorithm.__dataclass_params__.frozen
    with pytest.raises(TypeError, match="does not support item assignment"):
        ALGORITHMS["mine"] = ALGORITHMS["grpo"]
