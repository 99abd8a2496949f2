"""Suite files: strict reading, stable seeds and ids."""

import dataclasses
import re
from pathlib import Path
from typing import Any, Literal

import pytest

from agentgym.endpoint import EndpointSpec
from agentgym.errors import UsageError
from agentgym.evaluation.log.endpoint_runs import NamedEndpoint, named_endpoints
from agentgym.evaluation.play.estimate import RequestTokens, _extrapolated, estimate_suite
from agentgym.evaluation.suites.suite import Suite, SuiteAgent, SuiteEnv, load_suite
from agentgym.io.records import parse

SPEC = EndpointSpec("http://127.0.0.1:8000/v1", "tiny")
SUITES = Path(__file__).parents[2] / "agentgym" / "evaluation" / "suites"


def edited(path: Path, old: str, new: str) -> Path:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("attempts = 2", "atempts = 2", r"unknown key 'atempts' \(did you mean 'attempts'\?\)"),
        ("label =", "lable =", r"env: unknown key 'lable' \(did you mean 'label'\?\)"),
        ('kind = "oracle"', 'knd = "oracle"', r"agent: unknown key 'knd' \(did you mean 'kind'\?\)"),
        ("seed = 7", "", "key 'seed' is missing"),
        ("seed = 7", "seed = -1", "seed must be at least 0"),
        ("seed = 7", 'seed = "7"', "seed: expected an integer, got '7'"),
        ("seed = 7", "seed = true", "seed: expected an integer, got True"),
        ("attempts = 2", "attempts = 0", "attempts from 1 to 1000"),
        ("attempts = 2", "attempts = 1180591620717411303424", "attempts from 1 to 1000"),
        ("tasks = 12", "tasks = 0", "tasks must be at least 1"),
        ("tasks = 12", "tasks = 1.5", "tasks: expected an integer"),
        ("tasks = 12", "tasks = []", r"tasks must be at least 1, got \(\)"),
        ("tasks = 12", "tasks = [1]", "tasks: expected a string, got 1"),
        ("tasks = 12", 'tasks = ["a", "a"]', "two tasks are named 'a'"),
        ("by_type = true", 'metric = "sucess"', r"'sucess' \(did you mean 'success'\?\) must be one of"),
        ("by_type = true", "bounds = [1.0, 0.0]", r"bounds must be \[least, greatest\]"),
        ("by_type = true", "bounds = [-1.7e308, 1.7e308]", r"within -1e\+09 and 1e\+09, got"),
        ("by_type = true", "bounds = [1.0]", "expected a list of 2"),
        ("by_type = true", "bounds = 1", "expected a list, got 1"),
        ("by_type = true", "kwargs = 3", "kwargs: expected a table"),
        ("by_type = true", 'kwargs = { split = "train" }', "give split beside kwargs"),
        ("by_type = true", "kwargs = { share = nan }", "not JSON compliant.*; use texts, finite numbers"),
        ("by_type = true", "kwargs = { day = 2020-01-01 }", "date is not JSON serializable; use texts"),
        ("by_type = true", "bounds = [0.0, inf]", "use texts, finite numbers"),
        ('label = "Ice"', 'label = "Corridor"', "two environments are labelled 'Corridor'"),
        ('label = "Ice"', 'label = "a|b"', "a label is one line without"),
        ('name = "random"', 'name = "oracle"', "two agents are named 'oracle'"),
        ('name = "random"', 'name = "../x"', "agent name '../x' must be letters"),
        ('name = "small"', 'name = "a/b"', "suite name 'a/b' must be letters"),
        ('name = "random"', 'name = "chance"', "no agent 'random' to normalise scores with"),
        ("attempts = 2", 'attempts = 2\noracle = ""', "name both a floor and an oracle"),
        ('version = "1"', "version = ", "is not TOML"),
    ],
)
def test_bad_suite_files_are_usage_errors(suite_file: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        load_suite(edited(suite_file, old, new))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tasks = 12", "tasks = 1"),
        ("attempts = 2", "attempts = 1"),
        ("attempts = 2", "attempts = 1000"),
        ("seed = 7", "seed = 0"),
        ('label = "Ice"', 'label = "i"'),
    ],
)
def test_the_least_and_the_most_are_allowed(suite_file: Path, old: str, new: str) -> None:
    load_suite(edited(suite_file, old, new))


def test_a_missing_suite_file_and_an_empty_suite(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*none\.toml"):
        load_suite(tmp_path / "none.toml")
    (tmp_path / "empty.toml").write_text('name = "x"\nversion = "1"\nseed = 0\n')
    with pytest.raises(UsageError, match=r"add an \[\[env\]\] table"):
        load_suite(tmp_path / "empty.toml")


def test_seeds_are_fixed_and_belong_to_one_episode_each(suite_file: Path) -> None:
    suite = load_suite(suite_file)
    assert suite.episode_seed("Corridor", 0, 0) == 2332222453
    places = [
        (label, task, rollout) for label in ("Corridor", "Ice") for task in range(50) for rollout in range(4)
    ]
    assert len({suite.episode_seed(*place) for place in places}) == len(places)
    other = dataclasses.replace(suite, seed=8)
    assert other.episode_seed("Corridor", 0, 0) != suite.episode_seed("Corridor", 0, 0)


def test_seeds_do_not_depend_on_other_environments(suite_file: Path) -> None:
    suite = load_suite(suite_file)
    alone = dataclasses.replace(suite, env=suite.env[1:])
    assert alone.episode_seed("Ice", 3, 1) == suite.episode_seed("Ice", 3, 1)


def test_the_digest_covers_what_is_played_but_not_who_plays(suite_file: Path) -> None:
    suite = load_suite(suite_file)
    assert dataclasses.replace(suite, agent=()).sha256 == suite.sha256
    for change in ({"seed": 8}, {"attempts": 3}, {"version": "2"}, {"env": suite.env[:1]}):
        assert dataclasses.replace(suite, **change).sha256 != suite.sha256


@pytest.mark.parametrize("name", [path.stem for path in sorted(SUITES.glob("*.toml"))])
def test_shipped_suites_are_readable(name: str) -> None:
    suite = load_suite(SUITES / f"{name}.toml")
    assert suite.name == name
    assert isinstance(suite, Suite)
    names = {agent.name for agent in suite.agent}
    assert "random" in names
    assert {suite.floor, suite.oracle} <= {*names, ""}


def test_official_alfworld_suites_name_their_dialect() -> None:
    for path in SUITES.glob("official-alfworld-*.toml"):
        (env,) = load_suite(path).env
        assert path.stem.endswith(f"-{env.kwargs['dialect']}")
        assert env.kwargs["show_help"] is False


def test_the_quick_suite_plays_what_needs_no_official_data() -> None:
    from agentgym.registration import ENVIRONMENTS

    suite = load_suite(SUITES / "quick.toml")
    assert {env.id for env in suite.env} <= set(ENVIRONMENTS)
    assert all(env.options.get("dataset", "builtin") == "builtin" for env in suite.env)


@dataclasses.dataclass(frozen=True, slots=True)
class Inner:
    x: int


@dataclasses.dataclass(frozen=True, slots=True)
class Outer:
    inner: Inner
    many: tuple[Inner, ...] = ()
    pair: tuple[float, str] = (0.0, "")
    word: Literal["a", "b"] = "a"
    maybe: int | None = None
    flag: bool = False


def test_parse_reads_nested_tables() -> None:
    table = {
        "inner": {"x": 1},
        "many": [{"x": 2}, {"x": 3}],
        "pair": [1, "s"],
        "word": "b",
        "maybe": None,
        "flag": True,
    }
    assert parse(Outer, table, "t") == Outer(Inner(1), (Inner(2), Inner(3)), (1.0, "s"), "b", None, True)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([], "t: expected a table"),
        ({"inner": 1}, "t: inner: expected a table"),
        ({"inner": {"x": 1.0}}, "t: inner: x: expected an integer, got 1.0"),
        ({"inner": {"x": 1}, "maybe": "1"}, "t: maybe: expected an integer"),
        ({"inner": {"x": 1}, "flag": 1}, "t: flag: expected true or false"),
        ({"inner": {"x": 1}, "pair": ["1", "s"]}, "t: pair: expected a number"),
    ],
)
def test_parse_refuses_what_does_not_fit(table: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(Outer, table, "t")


def test_the_endpoint_suite_is_ready_for_whoever_has_a_key() -> None:
    """It loads, and each of its agents has what it takes; `--estimate` of a part of it asks nobody."""
    suite = load_suite(SUITES.parents[2] / "benchmarks" / "suites" / "endpoints.toml")
    assert {agent.kind for agent in suite.agent} == {
        "random", "oracle", "rules", "prompting", "react", "reflexion",
    }  # fmt: skip
    played = {env.id.rpartition("/")[2] for env in suite.env}
    assert {"ALFWorld-v0", "WebShop-v0", "Sokoban-v0", "EZPoints-v0", "HotpotQA-v0"} <= played
    assert {"PaperSearch-v0", "Sotopia-v0"} <= played
    asking = [agent for agent in suite.agent if "endpoint" in agent.options]
    small = dataclasses.replace(suite, env=tuple(env for env in suite.env if env.label == "EZPoints"))
    found = estimate_suite(small.first(2), asking)
    assert [part.agent for part in found.parts] == [agent.name for agent in asking]
    for part in found.parts:
        assert part.episodes == 6
        assert 0 < part.likely.calls <= part.most.calls
        assert 100 * part.likely.calls < part.likely.prompt_tokens <= part.most.prompt_tokens
        assert part.likely.completion_tokens <= part.most.completion_tokens


def test_an_estimate_of_some_episodes_is_extended_to_all() -> None:
    """Two of ten episodes, of one step and of three, with four calls; the step limit is five."""
    calls = [(100, 50, 10), (100, 50, 10), (200, 60, 20), (300, 50, 5)]
    env, named = SuiteEnv("agentgym/EZPoints-v0", "Cards", "test", 10), NamedEndpoint(SPEC, ("agent",))
    found = _extrapolated(SuiteAgent("a", "react"), env, named, calls, (1, 3), 5, 10)
    assert found.likely == RequestTokens(20, 3_500, 225)
    # a step asks once: six more an episode pair, with prompts of 300 tokens that grow by 100 a step
    assert found.most == RequestTokens(50, 5 * (700 + 6 * 400), 5 * 10 * 60)
    assert (found.env, found.url, found.episodes) == ("Cards", SPEC.url, 10)
    nothing = _extrapolated(SuiteAgent("a", "react"), env, named, [], (), 5, 10)
    assert nothing.likely == nothing.most == RequestTokens()


def test_the_official_sotopia_suite_pins_one_model() -> None:
    suite = load_suite(SUITES / "official-sotopia.toml")
    named = {spec.model for spec, _ in named_endpoints(None, suite.env)}
    (model,) = named
    assert re.fullmatch(r"Qwen/Qwen2.5-72B-Instruct@[0-9a-f]{40}", model)
    assert [env.label for env in suite.env] == [
        "self-chat, hard", "self-chat, all", "partner, hard", "partner, all",
    ]  # fmt: skip


def test_a_device_is_no_part_of_what_is_played():
    here, there = (
        SuiteEnv("agentgym/HotpotQA-v0", "QA", "test", 3, kwargs={"search": "exact", **device})
        for device in ({}, {"device": "cuda:1"})
    )
    assert here.played == there.played
    assert here.spec == there.spec
    assert there.options["device"] == "cuda:1"
