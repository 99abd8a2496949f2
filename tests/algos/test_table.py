import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from agentgym.algos.table import ALGORITHMS, Algorithm
from tests.algos.episodes import batches

ROOT = Path(__file__).resolve().parents[2]
NEED_TORCH = {"loss", "process"}
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
    per_token = name in ("ppo", "reinforce_pp", "reinforce_pp_baseline", "prime")
    assert result.shape == (batch.tokens.sum() if per_token else len(batch),)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_has_a_page_and_a_paper(name):
    algorithm = ALGORITHMS[name]
    page = ROOT / "docs" / "algorithms" / f"{algorithm.page}.md"
    assert algorithm.title.removesuffix("-baseline") in page.read_text(encoding="utf-8")
    assert algorithm.paper
    assert algorithm.equation


def of(quality):
    return {name for name, algorithm in ALGORITHMS.items() if quality(algorithm)}


def test_what_each_algorithm_needs():
    assert of(lambda a: a.critic is not None) == {"ppo", "steppo"}
    assert of(lambda a: a.reward_model) == {"istar", "prime"}
    assert of(lambda a: a.snapshot) == {"spo3"}
    assert of(lambda a: a.states) == {"gigpo", "hgpo", "graphgpo", "spo3"}
    assert of(lambda a: not a.reference) == {"dr_grpo", "dapo", "gspo", "istar"}


def test_defaults_are_those_of_the_function():
    assert ALGORITHMS["steppo"].defaults["gamma"] == 0.99
    assert ALGORITHMS["dr_grpo"].defaults["std"] is False
    assert ALGORITHMS["dapo"].defaults["max_tokens"] == 512
    with pytest.raises(TypeError, match="does not support item assignment"):
        ALGORITHMS["grpo"].defaults["std"] = False


def test_modules_of_algorithms_are_short():
    folder = ROOT / "agentgym" / "algos"
    lengths = {
        algorithm.page: len((folder / f"{algorithm.page}.py").read_text(encoding="utf-8").splitlines())
        for algorithm in ALGORITHMS.values()
    }
    assert {name: lines for name, lines in lengths.items() if lines > 120} == {}


@pytest.mark.parametrize("module", [module for module in MODULES if module not in NEED_TORCH])
def test_only_losses_import_torch(module):
    code = f"import sys; sys.modules['torch'] = None; import agentgym.algos.{module}"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_the_core_tests_leave_torch_out():
    """The modules that import torch, and their tests and pages, are listed by name in the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    listed = set(makefile.partition("NOT_CORE = ")[2].partition("\n\n")[0].replace("\\", " ").split())
    users = {
        path.relative_to(ROOT).as_posix()
        for folder, pattern in (("agentgym/algos", "*.py"), ("tests/algos", "*.py"), ("docs", "**/*.md"))
        for path in (ROOT / folder).glob(pattern)
        if any(
            line.lstrip("> ").startswith(("import torch", "from torch"))
            for line in path.read_text(encoding="utf-8").splitlines()
            if not line.startswith("    from torch")  # for type checkers only
        )
    }
    assert {f"agentgym/algos/{module}.py" for module in NEED_TORCH} <= users
    assert users - listed == set()


@pytest.mark.parametrize("page", ["docs/algorithms/index.md", "README.md"])
def test_the_table_on_the_pages_is_up_to_date(page):
    """`python docs/algorithm_table.py` writes it."""
    spec = importlib.util.spec_from_file_location("algorithm_table", ROOT / "docs" / "algorithm_table.py")
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    assert writer.updated(ROOT / page) == (ROOT / page).read_text(encoding="utf-8")


def test_records_are_frozen():
    assert Algorithm.__dataclass_params__.frozen
    with pytest.raises(TypeError, match="does not support item assignment"):
        ALGORITHMS["mine"] = ALGORITHMS["grpo"]
