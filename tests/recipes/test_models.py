"""Every run of the papers with the model that the paper names: what it takes of one and of eight GPUs."""

import json
from dataclasses import replace

import pytest

from agentgym.cli import main
from agentgym.training.config import override
from agentgym.training.machine.memory import ModelSize, plan_memory
from agentgym.training.machine.resources import MAX_MEMORY_FRACTION, Machine, resolve
from tests.recipes.check_recipes import config_of, recipes
from tests.recipes.paper_models import MODELS
from tests.recipes.paper_rows import PAPERS, read_paper

GPU = 80 << 30
RUNS = sorted(
    {
        (model, recipes()[name, algorithm, env].name)
        for name in PAPERS
        for run in read_paper(name).runs
        for algorithm in run.algorithms
        for env in run.envs
        for model in run.models
    }
)


@pytest.fixture(params=MODELS)
def model(request, tmp_path):
    """A directory of a model's ``config.json`` alone, named as the papers name the model."""
    folder = tmp_path / request.param
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(MODELS[request.param][1]))
    return folder


def test_the_papers_name_these_models():
    assert {model for model, _ in RUNS} == set(MODELS)


def test_every_run_fits_one_and_eight_gpus_or_does_with_its_update_in_main_memory(model):
    size = ModelSize.read(model)
    assert round(size.parameters / 1e9, 2) == MODELS[model.name][0]
    offloaded = set()
    for name in (name for named, name in RUNS if named == model.name):
        config = replace(config_of(name), model=str(model))
        for ranks in (1, 8):
            for has_vllm in (False, True):
                machine = Machine("cuda", "H100", GPU, ranks=ranks, has_vllm=has_vllm)
                for offload in (False, True):
                    chosen = resolve(override(config, {"learner.offload": offload}), machine, size)
                    assert (chosen.rollout.engine == "vllm") == has_vllm
                    plan = plan_memory(size, chosen, ranks=ranks, device_memory=GPU)
                    if plan.peak <= MAX_MEMORY_FRACTION * GPU:
                        offloaded |= {name} if offload and ranks == 8 else set()
                        break
                else:
                    pytest.fail(f"{name} on {ranks}: {plan.peak / 2**30:.0f} GiB")
    # a critic, or a reward model, of the policy's size
    assert {name.partition("/")[2].partition("-")[0] for name in offloaded} <= {"ppo", "istar", "prime"}


@pytest.mark.parametrize("devices", [1, 8])
def test_the_plan_says_that_it_fits_or_what_would(model, devices, capsys):
    name = next(name for named, name in RUNS if named == model.name)
    words = [
        "train",
        "--recipe",
        name,
        "--model",
        str(model),
        "--plan",
        str(devices),
        "--device-memory",
        "80",
    ]
    code = main(words)
    said = capsys.readouterr().out
    assert "GiB a rank at most, of 80.0" in said
    assert (code == 1) == ("This does not fit: use more devices" in said)
    assert code == 0 or "learner.offload=true" in said
    assert code == 0 or devices == 1
