"""Environments and agents of other packages: references, entry points, and what can be wrong with them."""

import os
import subprocess
import sys

import gymnasium
import pytest

from agentgym.agents import make_agent
from agentgym.checking.evidence import factory
from agentgym.cli import main
from agentgym.errors import UsageError
from agentgym.evaluation.log.stored_run import read_stored_run
from agentgym.evaluation.suites.agent_metadata import complete, has_metadata
from agentgym.evaluation.suites.suite import SuiteAgent
from agentgym.registration import class_of, find_spec, known_ids, open_env, open_vector
from agentgym.vector.core import AgentVectorEnv
from agentgym.vector.serial import SerialVectorEnv
from tests.corridor import CorridorVectorEnv
from tests.suite_texts import ORACLE, RANDOM, env_table, suite_text

MINE = """
import gymnasium
from tests.corridor import CorridorEnv

class Count(CorridorEnv):
    suite = "count"

gymnasium.register("me/Count-v0", entry_point=f"{__name__}:Count")
gymnasium.register("me/Brief-v0", entry_point=f"{__name__}:Count", max_episode_steps=3)
gymnasium.register("me/Made-v0", entry_point=lambda **options: Count(**options))
gymnasium.register("me/Nowhere-v0", entry_point="nowhere:Env")
class Plain(gymnasium.vector.VectorEnv):
    metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.DISABLED}

    def __init__(self, num_envs, **options):
        self.num_envs = num_envs

single = {"entry_point": f"{__name__}:Count"}
gymnasium.register("me/Plain-v0", **single, vector_entry_point=f"{__name__}:Plain")
gymnasium.register("me/Lost-v0", **single, vector_entry_point="nowhere:Envs")
gymnasium.register("me/Vector-v0", vector_entry_point=f"{__name__}:Plain")
"""

AGENT = """
from agentgym import Completion

class Walker:
    def __init__(self, words):
        self.words = words

    def act(self, requests):
        return [Completion(self.words[request.turn % len(self.words)]) for request in requests]

def make(envs, *, word="right"):
    return Walker([word])

def make_any(envs, **options):
    return Walker([options.get("word", "right")])

def make_needy(envs, word):
    return Walker([word])

def make_nothing(envs):
    pass

def make_alone():
    return Walker(["right"])

words = ["right"]
"""

SUITE = suite_text(
    "own",
    env_table("MINE:me/Count-v0", 7, split="train"),
    agents=({"name": "mine", "kind": "MINE_agent:make", "options": {"word": "right"}}, RANDOM, ORACLE),
    seed=3,
)


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """Return the name of a module in the current directory, which registers ids; NAME_agent has agents."""
    name = f"mine_{tmp_path.name.rpartition('_')[2]}{abs(hash(tmp_path)) % 10**6}"
    (tmp_path / f"{name}.py").write_text(MINE)
    (tmp_path / f"{name}_agent.py").write_text(AGENT)
    (tmp_path / "own.toml").write_text(SUITE.replace("MINE", name))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    yield name
    for env_id in [env_id for env_id in gymnasium.registry if env_id.startswith("me/")]:
        del gymnasium.registry[env_id]
    for module in (name, f"{name}_agent"):
        sys.modules.pop(module, None)


def fresh(*words, path=()):
    """Run the command line as its script does: in a process without the current directory on its path."""
    code = "import sys; from agentgym.cli import main; sys.exit(main())"
    search = os.pathsep.join([*map(str, path), *(entry for entry in sys.path if entry)])
    return subprocess.run(
        [sys.executable, "-P", "-c", code, *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": search},
    )


def test_a_suite_of_outsiders_is_benched_and_verified_in_fresh_processes(outside, tmp_path):
    done = fresh("bench", "own.toml", "--verify")
    badges = (done.stdout.count("replayed: "), done.stdout.count("re-run: "))
    assert (done.returncode, badges) == (0, (1, 2)), done.stderr
    (run,) = (tmp_path / "results" / "own").glob("mine-*")
    done = fresh("verify", run, "--suite", "own.toml", "--rerun")
    assert (done.returncode, done.stdout) == (2, ""), "modules that a run names are not imported unasked"
    allow = ("--allow", f"{outside}:me", "--allow", f"{outside}_agent:make")
    done = fresh("verify", run, "--suite", "own.toml", "--rerun", *allow)
    assert (done.returncode, done.stdout[:8]) == (0, "re-run: "), done.stdout + done.stderr


def test_an_outside_agent_is_its_reference_and_options(outside):
    agent = SuiteAgent("mine", f"{outside}_agent:make", options={"word": "right"})
    assert complete(agent) == agent
    assert (agent.identity["kind"], agent.identity["options"]) == (agent.kind, {"word": "right"})
    assert not has_metadata(agent.kind)


def test_an_outsider_is_played_on_the_command_line(outside, capsys):
    words = ["play", f"{outside}:me/Count-v0", "--agent", f"{outside}_agent:make", "--task", "corridor5"]
    assert main([*words, "--agent-option", "word=right"]) == 0
    assert "success after 5 steps" in capsys.readouterr().out


def test_everybody_sees_an_id_once_its_module_is_imported(outside):
    made = open_env(f"{outside}:me/Count-v0", split="test")
    assert type(gymnasium.make("me/Count-v0").unwrapped) is type(made) is class_of("me/Count-v0")
    assert type(gymnasium.make(f"{outside}:me/Count-v0").unwrapped) is type(made)


def test_an_environment_without_a_vector_form_is_wrapped(outside):
    envs = open_vector(f"{outside}:me/Count-v0", 3, split="train", options={"max_steps": 5})
    assert isinstance(envs, SerialVectorEnv)
    assert (envs.num_envs, envs.max_steps, envs.autoreset_mode.name) == (3, 5, "DISABLED")


def test_a_registered_step_limit_is_the_environments_own(outside):
    env_id = f"{outside}:me/Brief-v0"
    assert open_env(env_id).max_steps == open_vector(env_id, 2).max_steps == 3
    assert open_env(env_id, options={"max_steps": 4}).max_steps == 4


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        (
            "nowhere:me/Count-v0",
            "there is no module 'nowhere'.*: run from",
        ),
        ("..:me/Count-v0", "'..' names no module"),
        (":me/Count-v0", "'' names no module"),
        (
            "{}:me/Cuont-v0",
            r"registers no 'me/Cuont-v0' \(did you mean 'me/Count-v0'\?\): call",
        ),
        ("me/Missing-v0", "unknown id 'me/Missing-v0'.*; write module:id for one that a module registers"),
        ("CartPole-v1", "CartPole-v1 is not an AgentEnv: subclass agentgym.AgentEnv"),
        ("{}:me/Made-v0", "me/Made-v0 is made by a function: register the class itself"),
        ("{}:me/Nowhere-v0", "me/Nowhere-v0: there is no module 'nowhere'"),
        ("{}:me/Vector-v0", "me/Vector-v0 has no single form: register it with an entry_point"),
    ],
)
def test_bad_ids(outside, env_id, message):
    for opened in (open_env, lambda *ids, **more: open_vector(*ids, 2, **more)):
        with pytest.raises(UsageError, match=f"^column: .*{message}") as caught:
            opened(env_id.format(outside), where="column: ")
        assert "\n" not in str(caught.value)


def test_another_vector_form_is_refused(outside):
    with pytest.raises(UsageError, match="me/Plain-v0: Plain is not an AgentVectorEnv"):
        open_vector(f"{outside}:me/Plain-v0", 1)
    with pytest.raises(UsageError, match="me/Lost-v0: there is no module 'nowhere'"):
        open_vector(f"{outside}:me/Lost-v0", 1)


def test_a_module_that_needs_another_says_so(outside, tmp_path):
    (tmp_path / "needy_module.py").write_text("import no_such_package.part\n")
    with pytest.raises(UsageError, match="module needy_module needs no_such_package: install it"):
        find_spec("needy_module:me/Count-v0")


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("nowhere:make", {}, "there is no module 'nowhere'"),
        ("{}_agent:", {}, "names nothing: write module:attribute"),
        ("{}_agent:mkae", {}, r"_agent has no 'mkae' \(did you mean 'make'\?\)"),
        ("{}_agent:words", {}, "_agent:words' is not callable: name a function that takes the vector env"),
        ("{}_agent:make", {"wrd": 1}, r"has no option 'wrd' \(did you mean 'word'\?\); it takes word"),
        ("{}_agent:make_needy", {}, "needs the option 'word'$"),
        ("builtins:dict", {}, "takes no vector environment: make it the first parameter"),
        ("{}_agent:make_alone", {}, "takes no vector environment: make it the first parameter"),
        ("{}_agent:make_nothing", {}, "returned NoneType, not a Policy: return an object whose method act"),
    ],
)
def test_bad_agents(outside, kind, options, message):
    envs = CorridorVectorEnv(1, autoreset_mode="Disabled")
    with pytest.raises(UsageError, match=message) as caught:
        make_agent(kind.format(outside), envs, **options)
    assert "\n" not in str(caught.value)


def test_a_function_that_takes_any_option_is_given_it(outside):
    envs = CorridorVectorEnv(1, autoreset_mode="Disabled")
    assert make_agent(f"{outside}_agent:make_any", envs, word="left", other=1).words == ["left"]


# ---- entry points ---------------------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install a distribution with entry points, as pip would, into a folder on the path."""
    site = tmp_path / "site"
    info = site / "countgym-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "countgym.py").write_text(MINE.partition("gymnasium.register")[0] + "print('imported')\n" + AGENT)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: countgym\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[agentgym.envs]\nplugged/Count-v0 = countgym:Count\nplugged/Broken-v0 = countgym:Cuont\n"
        "[agentgym.agents]\nwalker = countgym:make\nbroken = nowhere:make\n"
    )
    monkeypatch.syspath_prepend(site)
    yield site
    for env_id in ("plugged/Count-v0", "plugged/Broken-v0"):
        gymnasium.registry.pop(env_id, None)
    sys.modules.pop("countgym", None)


def test_entry_points_are_found_when_they_are_asked_for(installed, capsys):
    assert {"plugged/Count-v0", "plugged/Broken-v0"} <= set(known_ids())
    assert "countgym" not in sys.modules
    envs = open_vector("plugged/Count-v0", 2, split="train")
    assert isinstance(envs, AgentVectorEnv)
    assert make_agent("walker", envs, word="left").words == ["left"]
    assert gymnasium.make("plugged/Count-v0").unwrapped.suite == "count"
    assert main(["play", "plugged/Count-v0", "--agent", "walker", "--task", "corridor3"]) == 0
    assert "success after 3 steps" in capsys.readouterr().out


def test_the_contract_is_checked_by_the_name_of_an_entry_point(installed):
    assert factory("plugged/Count-v0")().suite == "count"


def test_a_package_may_register_the_id_of_its_entry_point_too(installed, recwarn):
    with (installed / "countgym.py").open("a") as file:
        file.write("import gymnasium\ngymnasium.register('plugged/Count-v0', entry_point='countgym:Count')\n")
    open_env("plugged/Count-v0")
    assert not [each for each in recwarn if "Overriding" in str(each.message)]


def test_bench_plays_a_shipped_agent_that_the_suite_does_not_list(tmp_path, capsys):
    suite = tmp_path / "counts.toml"
    text = suite_text("counts", env_table("agentgym/EZPoints-v0", 2, split="test"), seed=0)
    suite.write_text(text)
    assert main(["bench", str(suite), "--agent", "random-strings", "--out", str(tmp_path / "out")]) == 0
    assert list((tmp_path / "out" / "counts").glob("random-strings-*"))


def test_bench_plays_an_agent_by_the_name_of_its_entry_point(installed, capsys, tmp_path):
    suite = tmp_path / "counts.toml"
    suite.write_text(suite_text("counts", env_table("plugged/Count-v0", 2, split="train"), seed=0))
    words = ["bench", str(suite), "--agent", "walker", "--out", str(tmp_path / "out")]
    assert main([*words, "--option", "word=left"]) == 0, capsys.readouterr().err
    (folder,) = (tmp_path / "out" / "counts").glob("walker-*")
    assert read_stored_run(folder).log.agent.options == {"word": "left"}
    assert main([*words[:3], "walkre"]) == 2
    assert "unknown agent 'walkre'" in capsys.readouterr().err


def test_importing_agentgym_imports_no_entry_point(installed):
    done = fresh("--version", path=[installed])
    assert (done.returncode, "imported" in done.stdout) == (0, False), done.stderr
    done = fresh("play", "plugged/Count-v0", "--agent", "walker", path=[installed])
    assert (done.returncode, done.stdout.count("imported")) == (0, 1), done.stderr


def test_broken_entry_points_are_one_line(installed):
    with pytest.raises(UsageError, match="plugged/Broken-v0: module countgym has no 'Cuont'"):
        open_env("plugged/Broken-v0")
    envs = CorridorVectorEnv(1, autoreset_mode="Disabled")
    with pytest.raises(UsageError, match="entry point 'broken' of countgym: there is no module 'nowhere'"):
        make_agent("broken", envs)
    with pytest.raises(UsageError, match=r"unknown agent 'walkre' .*'walker'.*broken, or write mod"):
        make_agent("walkre", envs)
