"""Pictures reach the encoder of a vision-language model, in sampling and in learning alike."""

import json
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch

from agentgym.algos.table import ALGORITHMS
from agentgym.cli import main
from agentgym.errors import UsageError
from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.engines.server import ServerEngine
from agentgym.inference.engines.server_weights import FileSender
from agentgym.inference.engines.types import GenerationRequest, Sampling
from agentgym.inference.engines.vllm_process import VllmProcess, serve_options
from agentgym.inference.engines.vllm_server import picture_features
from agentgym.inference.engines.vllm_worker import METHOD
from agentgym.inference.models.language_model import load_model, save_model
from agentgym.inference.models.pictures import Picture, PicturePrompt
from agentgym.inference.models.tiny import tiny_model, tiny_vision_model, word_tokenizer
from agentgym.inference.policy.open import open_model, vocabulary_texts
from agentgym.inference.policy.prompted import make_policy
from agentgym.inference.policy.saved import default_prompting
from agentgym.prompts.settings import Prompting
from agentgym.recipes import algorithms_with_recipes, find_recipe, recipe_config, recipe_names
from agentgym.registration import open_vector, suite_spec
from agentgym.rollout.worker import RolloutWorker
from agentgym.training.collect.config import RolloutConfig
from agentgym.training.config import TINY, TrainConfig, override
from agentgym.training.learner.distributed import Ranks
from agentgym.training.learner.logprobs import response_log_probs
from agentgym.training.learner.packing import StepRow, pack_rows
from agentgym.training.learner.tree import own_packs, pack_tree
from agentgym.training.loop import Trainer
from agentgym.training.machine.memory import ModelSize
from agentgym.training.machine.resources import Machine, resolve
from agentgym.training.setup import TrainingSetup

VISUAL = "agentgym/VisualSokoban-v0"
CARDS = "agentgym/EZPoints-v0"


@pytest.fixture(scope="module")
def tiny():
    return tiny_vision_model("0.1m", word_tokenizer(["push the box up down left right"]))


def requests_of(tiny, shapes=((96, 96), (96, 96), (64, 96))):
    """Return prompts with a picture each, twice, and one without."""
    draws = np.random.default_rng(0)
    base = tiny.chat.encode_chat("push the box")
    pictures = [tiny.pictures.read(draws.integers(0, 256, (*shape, 3))) for shape in shapes]
    prompts = [(*base[:3], *tiny.pictures.tokens_of(picture), *base[3:]) for picture in pictures]
    sampling = Sampling(max_tokens=5)
    told = [
        GenerationRequest(ids, None, sampling, seed, tiny.pictures.prompt(ids, (picture,)))
        for seed in range(2)
        for ids, picture in zip(prompts, pictures, strict=True)
    ]
    return [*told, GenerationRequest(tuple(base), None, sampling, 7)]


def test_observations_without_a_picture_have_none(tiny):
    assert [tiny.pictures.of(shown) for shown in ("an image", {"text": "an image"})] == [None, None]


def test_a_picture_is_not_taken_for_the_tokens_that_have_its_number(tiny):
    shown = requests_of(tiny, ((96, 96),))[0]
    (start,), (picture,) = shown.shown.starts, shown.shown.pictures
    ids = [*shown.prompt_ids]
    ids[start : start + picture.tokens] = [0] * picture.tokens
    rows = [StepRow(shown.prompt_ids, (1,), None, shown.shown), StepRow(tuple(ids), (1,))]
    (pack,) = pack_tree(rows, token_budget=1000)
    assert len(pack.input_ids) == start + 2 * (len(ids) - start)


def test_engine_learner_and_model_agree(tiny):
    requests = requests_of(tiny)
    generations = HfEngine(tiny.model).generate(requests)
    rows = [
        StepRow(request.prompt_ids, generation.ids, None, request.shown)
        for request, generation in zip(requests, generations, strict=True)
    ]
    sampled = np.concatenate([generation.logprobs for generation in generations])
    for pack_with, pictures in ((pack_tree, 3), (pack_rows, 6)):
        (pack,) = pack_with(rows, token_budget=1000)
        assert len(pack.pictures) == pictures  # rows with the same picture share it in a trie
        learnt = np.zeros(len(sampled))
        learnt[pack.tokens] = response_log_probs(tiny.model, pack)[0].detach().numpy()
        np.testing.assert_allclose(learnt, sampled, atol=1e-5)
    for request, generation in zip(requests[:3], generations, strict=False):
        plain = plain_logprobs(tiny.model, tiny.pictures, request, generation.ids)
        np.testing.assert_allclose(plain, generation.logprobs, atol=1e-5)


def plain_logprobs(model, reader, request, ids):
    """Return the log-probabilities of a response to a prompt with a picture, by one forward pass."""
    tokens = torch.tensor([[*request.prompt_ids, *ids]])
    (picture,) = request.shown.pictures
    with torch.no_grad():
        logits = model(
            input_ids=tokens,
            pixel_values=picture.patches,
            image_grid_thw=torch.tensor([picture.grid]),
            mm_token_type_ids=(tokens == reader.image_token).int(),
        ).logits[0, len(request.prompt_ids) - 1 : -1]
    return logits.log_softmax(-1)[range(len(ids)), list(ids)].numpy()


@pytest.mark.vllm
@pytest.mark.filterwarnings("ignore")
def test_pictures_are_requests_that_vllm_reads():
    protocol, features = (
        import_module(f"vllm.entrypoints.scale_out.token_in_token_out.{name}")
        for name in ("protocol", "mm_features")
    )
    pictures = [
        Picture(name, torch.full((size, 3), float(size)), (1, 2, size // 2), size // 4)
        for name, size in (("a", 8), ("b", 16))
    ]
    sent = json.loads(json.dumps(picture_features(PicturePrompt(tuple(pictures), (2, 6), np.zeros((3, 12))))))
    body = {"token_ids": [0] * 12, "sampling_params": {}, "features": sent}
    read = protocol.GenerateRequest.model_validate(body).features
    assert [(each.offset, each.length) for each in read.mm_placeholders["image"]] == [(2, 2), (6, 4)]
    assert read.mm_hashes == {"image": ["a", "b"]}
    for part, picture in zip(features.mm_kwargs_from_features(read)["image"], pictures, strict=True):
        found = part.get_data()
        assert torch.equal(found["pixel_values"], picture.patches)
        assert found["image_grid_thw"].tolist() == list(picture.grid)


@pytest.mark.vllm
@pytest.mark.filterwarnings("ignore")
def test_vllm_sees_the_pictures_that_the_learner_sees(tmp_path, monkeypatch):
    pytest.importorskip("torchvision")  # vLLM's processors of pictures need it
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    seeing = tiny_vision_model("0.8m", word_tokenizer(["push the box up down left right"]), context=512)
    save_model(tmp_path, seeing)
    options = serve_options(
        {"max_num_seqs": 16}, dtype=torch.float32, device="cpu", mm_device_do_normalize=False
    )
    process = VllmProcess(tmp_path, options)
    sender = FileSender("", after=METHOD)
    engine = ServerEngine([process.url], seeing.model, dtype=torch.float32, sender=sender, process=process)
    engine.adopt()
    *requests, text = requests_of(seeing)
    for version in range(2):
        generations = engine.generate(requests)
        assert len(engine.submit(text).result(60).ids) == 5
        for request, generation in zip(requests, generations, strict=True):
            expected = plain_logprobs(seeing.model, seeing.pictures, request, generation.ids)
            np.testing.assert_allclose(generation.logprobs, expected, atol=1e-4)
            assert generation.version == version
        assert engine.submit(requests[0]).result(60).ids == generations[0].ids
        with torch.no_grad():
            for weight in seeing.model.parameters():
                weight.mul_(1.1)
        engine.sync(seeing.model.named_parameters(), version + 1)
    engine.close()


def test_a_picture_decides_what_is_said(tiny):
    first, second, *_ = requests_of(tiny)
    one, other = (HfEngine(tiny.model).generate([replace(request, seed=0)])[0] for request in (first, second))
    assert one.logprobs != other.logprobs


def test_a_model_directory_keeps_its_reader(tiny, tmp_path):
    save_model(tmp_path, tiny)
    loaded = load_model(tmp_path)
    pixels = np.arange(96 * 96 * 3).reshape(96, 96, 3) % 251
    assert torch.equal(loaded.pictures.read(pixels).patches, tiny.pictures.read(pixels).patches)
    (request,) = requests_of(tiny, ((96, 96),))[:1]
    assert HfEngine(loaded.model).generate([request]) == HfEngine(tiny.model).generate([request])


TINY_RUN = {
    "iterations": 1,
    "rollout.tasks": 1,
    "rollout.group_size": 2,
    "env_options.max_steps": 2,
    "prompting.max_tokens": 2,
    "learner.dtype": "float32",
    "evaluation.every": 0,
}


@pytest.fixture(scope="module")
def directory(tiny, tmp_path_factory):
    """A directory as a Qwen2.5-VL is downloaded: no settings of a run."""
    folder = tmp_path_factory.mktemp("models") / "vl"
    save_model(folder, tiny)
    return folder


@pytest.mark.parametrize("named", ["tiny", "paper", "plain"])
def test_a_vision_language_directory_is_planned_and_trained_by_every_preset(
    named, directory, tmp_path, capsys
):
    words = ["train", "grpo", "--env", VISUAL, "--preset", named, "--model", str(directory)]
    assert main([*words, "--plan", "--device-memory", "80"]) == 0
    assert "billion parameters, 2 layers" in capsys.readouterr().out
    own = TINY_RUN if named == "paper" else TINY_RUN | {"prompting.pictures": "alone"}
    options = [word for name, value in own.items() for word in ("--set", f"{name}={json.dumps(value)}")]
    assert main([*words, *options, "--out", str(tmp_path / "run")]) == 0
    trained = tmp_path / "run" / "checkpoints" / "000001" / "model"
    assert json.loads((trained / "agent.json").read_text())["prompting"]["pictures"] == "alone"
    assert main([*words[:-1], str(trained), "--plan", "--device-memory", "80"]) == 0


@pytest.mark.parametrize("name", [name for name in algorithms_with_recipes() if ALGORITHMS[name].trainable])
def test_every_recipe_plans_for_a_vision_language_directory(name, directory, capsys):
    words = ["train", name, "--env", VISUAL, "--model", str(directory), "--preset", "paper"]
    assert main([*words, "--plan", "--device-memory", "80"]) == 0, capsys.readouterr().err


def test_a_size_holds_the_encoder_of_pictures(tiny, directory):
    size = ModelSize.read(directory)
    assert size.parameters == sum(weight.numel() for weight in tiny.model.parameters())
    assert size.layers == tiny.model.config.get_text_config().num_hidden_layers


@pytest.mark.parametrize("pictures", ["alone", "none"])
def test_a_large_model_that_reads_pictures_is_sampled_from_by_vllm(directory, pictures):
    gpu = Machine("cuda", "a GPU", 80 << 30, has_vllm=True)
    size = replace(ModelSize.read(directory), parameters=3_000_000_000)
    shown = replace(Prompting.default(suite_spec(VISUAL).prompt), pictures=pictures)
    config = TrainConfig(algorithm="grpo", env_id=VISUAL, model=str(directory), prompting=shown)
    assert resolve(config, gpu, size).rollout.engine == "vllm"


PICTURED = [name for name in recipe_names() if find_recipe(name).env_id in (VISUAL, CARDS)]


@pytest.mark.parametrize("name", PICTURED)
def test_recipes_of_games_with_pictures_show_them(name):
    recipe = find_recipe(name)
    prompting = recipe_config(recipe, recipe.env_id).prompting
    assert (prompting.pictures, prompting.history) == ("alone", 0)
    assert "# is a wall" not in prompting.template.static  # no sign of a board in text is explained


def test_a_prompt_without_its_picture_is_refused(tiny):
    ids = tiny.pictures.tokens_of(tiny.pictures.read(np.zeros((96, 96, 3))))
    with pytest.raises(UsageError, match="36 picture tokens"):
        tiny.pictures.prompt(ids, ())


def test_alone_tells_no_text_of_what_the_picture_shows():
    envs = open_vector(VISUAL, 2, split="train", options={"max_steps": 3})
    prompting = default_prompting("tiny-vl:0.1m", VISUAL)
    model = open_model("tiny-vl:0.1m", vocabulary_texts("tiny-vl:0.1m", [(envs, prompting)]), prompting, 0)
    policy = make_policy(prompting, model, HfEngine(model.model), envs, keep_messages=True)
    (group,) = RolloutWorker(envs, policy, env_id=VISUAL).collect(envs.tasks.ids[:1], group_size=2, seed=0)
    for step in group.trajectories[0].steps:
        said = step.completion.messages[-1].text
        assert "picture shows" in said
        assert "#" not in said  # no wall of a board drawn in text
        assert model.pictures.image_token in step.completion.prompt_ids
    envs.close()


def test_pictures_need_a_reader_and_a_place():
    envs = open_vector(CARDS, 1, split="train", options={"observation": "image"})
    model = tiny_model("0.1m", word_tokenizer(["1 2 +"]))
    prompting = replace(Prompting.tiny(suite_spec(CARDS).prompt), pictures="beside")
    with pytest.raises(UsageError, match="reads no pictures: set prompting"):
        make_policy(prompting, model, HfEngine(model.model), envs)
    with pytest.raises(UsageError, match="no place for pictures: use the context 'rebuilt'"):
        replace(prompting, context="append")
    with pytest.raises(UsageError, match=r"unknown pictures .*choose one of none, beside, alone"):
        replace(prompting, pictures="inside")
    envs.close()


def test_a_rank_without_a_picture_reads_one_where_another_has_some(tiny):
    pictured, other = requests_of(tiny)[0], requests_of(tiny)[1]
    plain = [StepRow((token,) * 45, (1, 2)) for token in (5, 6, 7, 8)]
    rows = [StepRow(pictured.prompt_ids, (1,), None, pictured.shown), *plain]
    for packing in ("tree", "rows"):
        packs = [own_packs(rows, token_budget=50, ranks=Ranks(rank, 2), packing=packing) for rank in range(2)]
        read = [[len(pack.pictures) for pack, _ in each] for each in zip(*packs, strict=True)]
        assert sorted(read) == [[0, 0], [0, 0], [1, 1]]
        own = [pack for pack, _ in own_packs(rows, token_budget=50, ranks=Ranks(), packing=packing)]
        assert sorted(len(pack.pictures) for pack in own) == [0, 0, 0, 0, 1]
        held = [
            int((pack.input_ids == tiny.pictures.image_token).sum()) for each in packs for pack, _ in each
        ]
        assert sorted(held)[-2:] == [0, other.shown.pictures[0].tokens]


def test_a_reward_model_that_reads_no_pictures_is_refused():
    config = TINY.config("istar", VISUAL, model="tiny-vl:0.1m", seed=0)
    with pytest.raises(UsageError, match=r"reward model tiny:0\.1m reads no pictures, and prompts have some"):
        TrainingSetup.open(resolve(override(config, {"reward_model.model": "tiny:0.1m"})))


@pytest.mark.parametrize(
    ("env_id", "options"), [(VISUAL, {"max_steps": 4}), (CARDS, {"observation": "image"})]
)
def test_pictures_are_trained_on_and_saved(env_id, options, tmp_path):
    config = TINY.config("gigpo", env_id, model="tiny-vl:0.1m", seed=0)
    changes = {f"env_options.{name}": value for name, value in options.items()}
    config = override(
        config,
        {
            **changes,
            "rollout.tasks": 2,
            "rollout.group_size": 2,
            "rollout.num_envs": 4,
            "evaluation.every": 0,
        },
    )
    setup = TrainingSetup.open(resolve(config))
    before = {name: weight.clone() for name, weight in setup.learner.model.named_parameters()}
    trainer = Trainer(setup, tmp_path)
    for _ in range(2):
        metrics = trainer.iterate()
        assert metrics.logp_diff < 1e-4
        assert np.isfinite(metrics.loss)
    moved = {
        name for name, weight in setup.learner.model.named_parameters() if not weight.equal(before[name])
    }
    if metrics.grad_norm > 0:
        assert any("visual" in name for name in moved)
    trainer.save()
    saved = json.loads((tmp_path / "checkpoints" / "last" / "model" / "config.json").read_text())
    assert saved["model_type"] == "qwen2_5_vl"
    assert load_model(tmp_path / "checkpoints" / "last" / "model").pictures is not None
    trainer.close()
    setup.close()


def test_config_of_a_vision_run_is_read_again():
    config = TrainConfig(
        algorithm="grpo", env_id=VISUAL, model="tiny-vl:0.1m", rollout=RolloutConfig(tasks=1)
    )
    assert default_prompting(config.model, VISUAL).pictures == "alone"


OPEN_ROOM = "#######\n#     #\n# @$. #\n#     #\n#######\n"
SHAFT = "#######\n###.###\n###$###\n###@###\n#######\n"


def test_a_model_learns_what_only_the_picture_tells(tmp_path):
    # the prompts of both levels are the same words, and one push wins each: without eyes half is the most
    levels = tmp_path / "levels.txt"
    levels.write_text(f"; 0\n{OPEN_ROOM}\n; 1\n{SHAFT}\n", encoding="utf-8")
    config = TINY.config("grpo", VISUAL, model="tiny-vl:0.1m", seed=0)
    config = override(
        config,
        {
            "env_options.dataset": str(levels),
            "env_options.max_steps": 1,
            "rollout.tasks": 2,
            "rollout.group_size": 16,
            "rollout.num_envs": 32,
            "evaluation.every": 0,
            "iterations": 60,
            "decay": "constant",
            "learner.entropy_coefficient": 0.02,
        },
    )
    setup = TrainingSetup.open(resolve(config))
    trainer = Trainer(setup, tmp_path)
    success = []
    while len(success) < 25 and (len(success) < 3 or success[-1] <= 0.9):
        success.append(trainer.iterate().success)
    trainer.close()
    setup.close()
    assert success[0] < 0.6
    assert success[-1] > 0.9
