"""`agentgym train ALGORITHM`, from the command line to a folder that can be gone on with."""

import json
import shlex
import shutil
import subprocess
import sys

import pytest

from agentgym.cli.commands import make_parser
from agentgym.cli.train import TRAINABLE, _config
from agentgym.errors import UsageError
from agentgym.training.collect.curriculum import CurriculumConfig
from agentgym.training.config import TrainConfig, config_to_json
from tests.examples.test_commands import PAGES, commands

EZPOINTS = ("--env", "agentgym/EZPoints-v0", "--model", "tiny:0.1m")
SMALL = (
    *("--set", "rollout.tasks=2", "--set", "rollout.group_size=3", "--set", "rollout.num_envs=6"),
    *("--set", "evaluation.tasks=2", "--set", "evaluation.every=1", "--set", "decay=constant"),
    *("--set", "patience=100"),
)


@pytest.fixture
def train(cli, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lambda *words: cli("train", *words)


def test_a_run_is_begun_and_gone_on_with(train, tmp_path):
    code, out, err = train("gigpo", *EZPOINTS, *SMALL, "--iterations", 2, "--seed", 5)
    assert (code, out.splitlines()) == (
        0,
        ["finished after 2 iterations", "model: runs/gigpo-ezpoints-seed5/checkpoints/000002/model"],
    )
    assert len(err.splitlines()) >= 3
    folder = tmp_path / "runs" / "gigpo-ezpoints-seed5"
    config = json.loads((folder / "config.json").read_text())
    assert (config["algorithm"], config["seed"], config["rollout"]["group_size"]) == ("gigpo", 5, 3)
    assert config["learner"]["minibatches"] == 6

    code, out, _ = train("gigpo", "--resume", folder, "--iterations", 3, "--log", "jsonl")
    assert (code, out.splitlines()[0]) == (0, "finished after 3 iterations")
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 3

    code, _, err = train("gigpo", *EZPOINTS, *SMALL, "--seed", 5)
    assert (code, "holds a run already" in err) == (2, True)

    again = ("--config", folder / "config.json", "--seed", 6, "--iterations", 1, "--out", "again")
    code, out, _ = train("gigpo", *again, "--log", "jsonl")
    assert (code, out.splitlines()[-1]) == (0, "model: again/checkpoints/000001/model")
    config = json.loads((tmp_path / "again" / "config.json").read_text())
    assert (config["seed"], config["rollout"]["group_size"]) == (6, 3)


def test_a_run_that_never_began_leaves_its_folder_free(train, tmp_path):
    words = ("grpo", *EZPOINTS, *SMALL, "--iterations", 1, "--out", "run")
    code, _, err = train(*words, "--log", "consol")
    assert (code, "did you mean 'console'" in err) == (2, True)
    assert not (tmp_path / "run").exists()
    code, _, err = train(*words, "--set", "prompting.budget=20")
    assert (code, "raise it" in err) == (2, True)
    code, _, err = train(*words)
    assert code == 0, err


def test_a_run_killed_before_its_first_checkpoint_begins_anew(train, tmp_path):
    words = ("grpo", *EZPOINTS, *SMALL, "--iterations", 2, "--log", "jsonl", "--out")
    assert train(*words, "run")[0] == 0
    folder = tmp_path / "run"
    (folder / "checkpoints" / "last").unlink()
    shutil.rmtree(folder / "checkpoints" / "000002")
    (folder / "checkpoints" / ".000002.partial").mkdir()
    code, out, err = train("grpo", "--resume", "run", "--log", "jsonl")
    assert (code, out.splitlines()[0]) == (0, "finished after 2 iterations"), err
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 2


def test_what_a_run_cannot_go_on_with_is_said(train, tmp_path):
    words = ("grpo", *EZPOINTS, *SMALL, "--iterations", 1, "--out", "run", "--log", "console")
    assert train(*words)[0] == 0
    on = ("--iterations", 2)
    for more, complaint in [
        (("gigpo", "--resume", "run"), "names a run of grpo, not of gigpo"),
        (("gigpo", "--config", "run"), "names a run of grpo, not of gigpo"),
        (("grpo", "--resume", "run", *on), "with --log console alone"),
    ]:
        code, _, err = train(*more)
        assert (code, len(err.splitlines())) == (2, 1), err
        assert complaint in err
    (tmp_path / "run" / "checkpoints" / "000001" / "state.pt").write_text("no state")
    code, _, err = train("grpo", "--resume", "run", *on, "--log", "console")
    assert (code, len(err.splitlines())) == (2, 1), err
    assert "cannot read the checkpoint" in err


def test_a_run_that_wins_nothing_is_not_told_that_it_won(train):
    words = ("gigpo", *EZPOINTS, *SMALL[:-2], "--set", "patience=2", "--set", "env_options.max_steps=2")
    code, out, err = train(*words, "--iterations", 9, "--log", "console")
    assert code == 0
    said = out.splitlines()[0]
    assert said.startswith(
        "ended after 2 iterations: in the last ones the episodes of every group earned the same"
    )
    assert "none was won at any time: begin with a model that succeeds sometimes (agentgym train bc)" in said
    assert " ".join(err.split()).count("success: episodes won in training.") == 1


def test_help_names_every_algorithm_that_can_be_trained(cli):
    _, out, _ = cli("train", "--help")
    for name in TRAINABLE:
        assert name in out.split()
    _, out, _ = cli("train", "steppo", "--help")
    assert "example: agentgym train steppo --env" in " ".join(out.split())


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("grpoo",), "unknown algorithm 'grpoo' (did you mean 'grpo'?)"),
        (("prime", *EZPOINTS, "--set", "algorithm_options.beta=0.1"), "leave out algorithm_options.beta"),
        (("nowhere:MINE", *EZPOINTS), "there is no module 'nowhere'"),
        (("grpo",), "say what is played: --env ID"),
        (("grpo", "--env", "agentgym/Sokobann-v0"), "did you mean 'agentgym/Sokoban-v0'"),
        (("grpo", *EZPOINTS, "--set", "learner.learning_rte=1"), "did you mean 'learning_rate'"),
        (("grpo", *EZPOINTS, "--set", "seed=3"), "option 'seed' has its own flag: use --seed"),
        (("grpo", *EZPOINTS, "--set", "learner.epochs=two"), "expected an integer"),
        (("grpo", *EZPOINTS, "--set", "rollout=3"), "expected a table"),
        (("grpo", *EZPOINTS, "--set", "seed.x=3"), "seed has no parts; set seed"),
        (("grpo", *EZPOINTS, "--log", "consol"), "did you mean 'console'"),
        (("grpo", "--env", "agentgym/EZPoints-v0", "--model", "missing"), "missing does not exist"),
        (("grpo", "--env", "agentgym/EZPoints-v0", "--model", "tiny:7b"), "tiny:0.1m"),
        (("grpo", "--resume", "nowhere"), "nowhere"),
        (("grpo", "--resume", "nowhere", "--seed", "1"), "leave out --seed"),
        (("grpo", "--config", "nowhere.json"), "cannot read nowhere.json"),
        (("grpo", "--env", "agentgym/WebShop-v0"), "have free slots"),
        (("gigpo", *EZPOINTS, "--set", "algorithm_options.gamma=2"), "gamma must be a number from 0 to 1"),
        (
            ("gigpo", *EZPOINTS, "--set", "algorithm_options.gamma=abc"),
            "algorithm_options of gigpo: gamma must be a number",
        ),
        (("gigpo", *EZPOINTS, "--set", "algorithm_options.std=1"), "std must be true or false"),
        (("gigpo", *EZPOINTS, "--set", "algorithm_options.match=embedding"), "match"),
        (("ppo", *EZPOINTS, "--set", "algorithm_options.lam=7"), "lam must be a number from 0 to 1"),
        (("grpo", *EZPOINTS, "--set", "objective.clip_low=-1"), "clip_low must be a number of at least 0"),
        (("grpo", *EZPOINTS, "--set", "env_options.split=valid"), "set split instead"),
        (("grpo", *EZPOINTS, "--set", "device=gpu"), "device: 'gpu' (did you mean 'cpu'?)"),
    ],
)
def test_bad_input_is_one_line_that_names_the_fix(train, words, complaint, tmp_path):
    code, _, err = train(*words)
    assert code == 2
    assert complaint in err
    assert len(err.splitlines()) == 1
    assert not list(tmp_path.glob("runs/*/metrics.jsonl"))


def test_a_model_without_a_chat_template_is_refused(train, tmp_path, language_model_directory):
    (language_model_directory / "chat_template.jinja").unlink()
    code, _, err = train("grpo", "--env", "agentgym/EZPoints-v0", "--model", language_model_directory)
    assert (code, "has no chat template" in err) == (2, True)


@pytest.fixture
def language_model_directory(tmp_path):
    from agentgym.inference.models.language_model import save_model
    from agentgym.inference.models.tiny import tiny_model, word_tokenizer

    save_model(tmp_path / "model", tiny_model("0.1m", word_tokenizer(["one two"])))
    return tmp_path / "model"


STRANGER = "from pathlib import Path\nPath('imported').touch()\n"


@pytest.mark.parametrize("flag", ["--resume", "--config"])
@pytest.mark.parametrize(
    "changes",
    [{"algorithm": "stranger:MINE"}, {"env_id": "stranger:Own-v0"}],
    ids=lambda each: next(iter(each)),
)
def test_a_module_that_only_a_configuration_names_is_not_imported(
    train, tmp_path, monkeypatch, flag, changes
):
    monkeypatch.setattr("sys.path", list(sys.path))
    table = config_to_json(TrainConfig(algorithm="gigpo", env_id="agentgym/EZPoints-v0", model="tiny:0.1m"))
    (tmp_path / "config.json").write_text(json.dumps({**table, **changes}))
    (tmp_path / "stranger.py").write_text(STRANGER)
    named = tmp_path if flag == "--resume" else tmp_path / "config.json"
    code, _, err = train("gigpo", flag, named)
    assert (code, "give --allow stranger:NAME if you trust it" in err, len(err.splitlines())) == (2, True, 1)
    assert not (tmp_path / "imported").exists()
    code, _, err = train("gigpo", flag, named, "--allow", "stranger:MINE")
    assert (code, "module stranger" in err, len(err.splitlines())) == (2, True, 1)
    assert (tmp_path / "imported").exists()
    del sys.modules["stranger"]


def test_a_module_that_the_command_names_is_allowed(train, tmp_path):
    own = "examples.own_algorithm:OPO"
    code, _, err = train(own, *EZPOINTS, *SMALL, "--iterations", 1, "--out", "run", "--log", "jsonl")
    assert code == 0, err
    code, _, err = train(own, "--resume", "run", "--iterations", 2, "--log", "jsonl")
    assert code == 0, err


def documented(page):
    """Return the arguments of a page's training commands that begin a run and change settings."""
    for line in commands(page):
        words = shlex.split(line.removesuffix("&"))
        if words[:2] == ["agentgym", "train"] and words[2] != "bc" and "--set" in words:
            yield words[1:]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(documented(page))], ids=lambda page: page.name
)
def test_every_documented_setting_is_one_of_its_run(page):
    for words in documented(page):
        arguments = make_parser().parse_args(words)
        arguments.model = "tiny"  # those of the pages are not here
        if not (arguments.resume or arguments.config):
            given = {pair.partition("=")[0] for pair in arguments.settings}
            assert given
            assert isinstance(_config(arguments), TrainConfig), words


def test_a_curriculum_is_set_part_by_part():
    words = ["train", "gigpo", "--env", "agentgym/Sokoban-v0", "--set", "curriculum.by=optimal_moves"]
    words += ["--set", "curriculum.levels=[3, 5, 8]", "--set", "curriculum.success=0.7"]
    found = _config(make_parser().parse_args(words))
    assert found.curriculum == CurriculumConfig(by="optimal_moves", levels=(3, 5, 8), success=0.7)
    with pytest.raises(UsageError, match=r"unknown setting .curriculum\.buy."):
        _config(make_parser().parse_args([*words, "--set", "curriculum.buy=1"]))
    with pytest.raises(UsageError, match=r"set curriculum\.by"):
        _config(make_parser().parse_args([*words[:4], "--set", "curriculum.success=0.7"]))


@pytest.mark.parametrize(
    "words",
    [
        ("gigpo", "--set", "learner.lrr=1"),
        ("bc", "--set", "batchh=1"),
        ("gigpo", "--set", "env_options.reward=sparse"),
        ("gigpo", "--model", "tiny:0.1m", "--plan", "1"),
    ],
)
def test_a_mistyped_setting_does_not_wait_for_torch(words):
    command = ["train", *words, *EZPOINTS]
    code = f"import sys\nfrom agentgym.cli import main\nprint(main({command!r}), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "2 False\n", done.stderr
