import subprocess
import sys

import pytest
import torch

from agentgym.errors import UsageError
from agentgym.inference.models.language_model import load_model, save_model
from agentgym.inference.models.tiny import tiny_vision_model, word_tokenizer
from agentgym.training.learner.distributed import Ranks
from agentgym.training.learner.shards import saved_names
from tests.training import ranks as runs

SIZE = 2


@pytest.fixture(scope="module")
def folder(language_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    save_model(folder / "model", language_model)
    save_model(folder / "vl", tiny_vision_model("0.1m", word_tokenizer(["push the box up down left right"])))
    return folder


def run_ranks(*arguments):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={SIZE}"]
    done = subprocess.run(
        [*command, "-m", "tests.training.ranks", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr[-6000:]


@pytest.fixture(scope="module")
def alone(folder):
    """What one process trains."""
    result = {name: runs.train(name, folder, Ranks()) for name in runs.RUNS}
    result |= {kind: runs.fit(kind, folder, Ranks()) for kind in runs.REWARD_MODELS}
    result |= {algorithm: runs.iterate(algorithm, folder, Ranks()) for algorithm in runs.LOOPS}
    result |= {name: runs.see(name, folder, Ranks()) for name in runs.PICTURED}
    result["resharded"] = {name: runs.save_shards(name, folder, Ranks()) for name in runs.SHARDED}
    torch.save(result, folder / "one.pt")
    return result


@pytest.fixture(scope="module")
def together(folder, alone):
    """What each of two ranks has in the end."""
    run_ranks(folder)
    return [torch.load(folder / f"rank {rank} of {SIZE}.pt", weights_only=False) for rank in range(SIZE)]


def largest_difference(ours, theirs):
    assert ours.keys() == theirs.keys()
    return max(float((ours[name].double() - theirs[name].double()).abs().max()) for name in ours)


@pytest.mark.parametrize("name", runs.RUNS)
def test_ranks_train_what_one_process_trains(together, alone, name):
    tolerance = 1e-5
    expected = alone[name]
    for rank in together:
        result = rank[name]
        assert largest_difference(result["weights"], expected["weights"]) < tolerance
        for ours, theirs in zip(result["metrics"], expected["metrics"], strict=True):
            assert [field for field in ours if ours[field] is None] == [
                field for field in theirs if theirs[field] is None
            ]
            for field, value in theirs.items():
                if value is not None:
                    assert ours[field] == pytest.approx(value, abs=tolerance, rel=tolerance), field
        for column in ("log_probs", "ref_log_probs", "values", "values of steps"):
            assert (column in result) == (column in expected)
            if column in result:
                differences = (result[column] - expected[column]).abs()
                if name == "bfloat16":
                    # a processor may round a row's activations by where they lie in memory: on one without
                    # AVX-512 those of an untouched reference differ between two processes, too
                    assert differences.max() < 2**-7
                    assert (differences < 10 * tolerance).float().mean() > 0.9
                else:
                    assert differences.max() < 10 * tolerance
    assert together[0][name]["metrics"] == together[1][name]["metrics"]


def test_each_rank_reads_its_own_rows_of_the_weights(together, folder):
    whole = dict(load_model(folder / "model").model.named_parameters())
    for name, weight in whole.items():
        parts = [rank["read"][name] for rank in together]
        assert all(len(part) <= -(-len(weight) // SIZE) for part in parts)
        assert torch.equal(torch.cat(parts), weight)
    for rank in together:
        assert rank["elements read"] == sum(part.numel() for part in rank["read"].values())


@pytest.mark.parametrize("kind", runs.REWARD_MODELS)
def test_ranks_train_the_reward_model_that_one_process_trains(together, alone, folder, kind):
    expected = alone[kind]
    for rank in together:
        assert largest_difference(rank[kind]["weights"], expected["weights"]) < 1e-5
        assert (rank[kind]["log_probs"] - expected["log_probs"]).abs().max() < 1e-4
        for ours, theirs in zip(rank[kind]["metrics"], expected["metrics"], strict=True):
            assert ours == pytest.approx(theirs, abs=1e-5, rel=1e-5)
    state, empty = (rank[kind]["state"] for rank in together)
    assert state.keys() == empty.keys() == expected["state"].keys()
    saved = load_model(folder / f"{kind} saved by {SIZE}").model.state_dict()
    assert largest_difference({name: saved[name] for name in expected["weights"]}, expected["weights"]) < 1e-5


@pytest.mark.parametrize("algorithm", runs.LOOPS)
def test_iterations_of_ranks_are_those_of_one_process(together, alone, algorithm):
    for rank in together:
        assert rank[algorithm]["env_steps"] == alone[algorithm]["env_steps"]
        assert largest_difference(rank[algorithm]["weights"], alone[algorithm]["weights"]) < 1e-5


@pytest.mark.parametrize("name", runs.PICTURED)
def test_ranks_learn_from_pictures_what_one_process_learns(together, alone, name):
    expected = alone[name]
    for rank in together:
        assert largest_difference(rank[name]["weights"], expected["weights"]) < 1e-5
        assert (rank[name]["log_probs"] - expected["log_probs"]).abs().max() < 1e-5
        assert rank[name]["grad_norms"] == pytest.approx(expected["grad_norms"], abs=1e-5)
    assert any("visual" in key for key in expected["weights"])


def test_ranks_clone_what_one_process_clones(together, folder):
    alone = runs.cloned(folder, Ranks())
    for rank in together:
        result = rank["cloned"]
        assert largest_difference(result["weights"], alone["weights"]) < 1e-5
        for ours, theirs in zip(result["epochs"], alone["epochs"], strict=True):
            assert ours == pytest.approx(theirs, abs=1e-5, rel=1e-4)
        assert result["held"] == alone["held"]


@pytest.mark.parametrize("name", ["diverged", "diverged with adapter"])
def test_no_rank_takes_a_step_that_diverges(together, name):
    ours, theirs = (rank[name] for rank in together)
    assert all(torch.equal(*pair) for pair in zip(ours, theirs, strict=True))
    before, stopped, after = ours
    assert torch.equal(before, stopped)
    assert not torch.equal(stopped, after)


@pytest.mark.parametrize("name", ["critic of steps", "adapter"])
def test_any_number_of_ranks_goes_on_from_a_state(together, alone, folder, name):
    first, second = (rank[name]["state"] for rank in together)
    assert first.keys() == second.keys() == alone[name]["state"].keys()
    assert all(tensor.numel() == 0 for tensor in second["model"].values())
    ours = runs.go_on(name, folder, Ranks(), first)
    theirs = runs.go_on(name, folder, Ranks(), alone[name]["state"])
    assert largest_difference(ours, theirs) < 1e-5
    for rank in together:
        assert largest_difference(rank["continued"][name], theirs) < 1e-5


def test_weights_that_wait_in_main_memory_are_trained_alike(alone, folder, monkeypatch):
    objective, valued, _ = runs.RUNS["offloaded"]
    monkeypatch.setitem(runs.RUNS, "offloaded", (objective, valued, {}))
    learner = runs.learner_of("offloaded", folder, Ranks())
    rows, batch = runs.batch_of("offloaded", folder)
    for seed in range(runs.updates("offloaded")):
        learner.update(rows, batch, seed=seed)
    assert largest_difference(dict(learner.weights()), alone["offloaded"]["weights"]) < 1e-6


@pytest.mark.parametrize("name", runs.SHARDED)
def test_any_number_of_ranks_goes_on_from_the_shards_of_any_other(together, alone, folder, name):
    through = alone["resharded"][name]
    assert largest_difference(runs.go_on(name, folder, Ranks(), size=1), through) == 0
    assert largest_difference(runs.go_on(name, folder, Ranks(), size=SIZE), through) < 1e-5
    for rank in together:
        found = rank["resharded"][name]
        assert largest_difference(found["own"], found["through"]) == 0
        assert largest_difference(found["of one"], through) < 1e-5
    written = list(runs.shards(name, folder, SIZE).glob("*.safetensors"))
    assert len(written) == SIZE  # each rank its own


def test_a_reference_is_not_stored(together, folder):
    names = saved_names(runs.shards("critic of steps", folder, 1))
    assert {name.partition("/")[0] for name in names} == {"model", "critic", "optimizer", "critic_optimizer"}
    assert sum(name.endswith("embed_tokens.weight") for name in names if name.startswith("model/")) == 1
    assert "model/lm_head.weight" not in names  # tied


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_damaged_shards_are_one_line(alone, folder, tmp_path, damage):
    state = tmp_path / "state"
    state.mkdir()
    if damage == "cut":
        (file,) = runs.shards("critic of steps", folder, 1).glob("*.safetensors")
        (state / file.name).write_bytes(file.read_bytes()[:1000])
    learner = runs.learner_of("adapter", folder, Ranks())
    with pytest.raises(UsageError, match="cannot read the checkpoint") as raised:
        learner.load_state(state)
    assert "\n" not in str(raised.value)
    with pytest.raises(UsageError, match="the algorithm it was saved with"):
        learner.load_state(runs.shards("critic of steps", folder, 1))


def test_what_ranks_save_is_an_ordinary_model(together, folder):
    saved = load_model(folder / f"saved by {SIZE}").model
    parts = together[0]["continued"]["adapter"]
    weights = {
        name.replace(".base_layer.", "."): tensor for name, tensor in parts.items() if "lora" not in name
    }
    for name in (name for name in parts if name.endswith(".base_layer.weight")):
        b, a = (parts[name.replace("base_layer", f"lora_{matrix}.default")] for matrix in "BA")
        weights[name.replace(".base_layer.", ".")] = parts[name] + 32.0 / len(a) * (b @ a)
    own = saved.state_dict()
    assert largest_difference({name: own[name] for name in weights}, weights) == 0
    assert own.keys() - weights.keys() == {"lm_head.weight"}  # tied


def test_ranks_put_together_what_they_divided(together):
    for rank in together:
        assert rank["shared"] == list("abcde")
        assert rank["gathered"] == [(0, 0), (1, 0), (0, 1)]
        assert rank["told"] == "by 0"
        assert rank["alike"][0] == rank["alike"][1]


def test_a_checkpoint_without_another_rank_s_shard_is_refused(together):
    for said, left in (rank["refused checkpoint"] for rank in together):
        assert "another folder on rank 1 than on rank 0" in said
        assert "\n" not in said
        assert left == ["checkpoints"]


def test_processes_without_a_device_of_their_own_are_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("LOCAL_RANK", str(torch.cuda.device_count()))
    with pytest.raises(UsageError, match="lower --nproc-per-node"), Ranks.join("cuda"):
        pass
    monkeypatch.delenv("LOCAL_RANK")
    with Ranks.join("cpu") as ranks:
        assert (ranks.rank, ranks.size, ranks.is_first) == (0, 1, True)


def test_items_are_dealt_equally_often_and_counted_once():
    dealt = [Ranks(rank, 3).deal("abcde") for rank in range(3)]
    assert [item for each in dealt for item, counts in each if counts] == list("adbec")
    assert {len(each) for each in dealt} == {2}
    assert dealt[2] == [("c", True), ("e", False)]
    assert [Ranks(rank, 3).deal("a") for rank in range(3)] == [[("a", rank == 0)] for rank in range(3)]
    assert Ranks(1, 2).deal("") == []
