import sys
import types

import pytest

from agentgym.agents import AGENTS, check_agent, make_agent
from agentgym.agents.imported import IMPORTED
from agentgym.core.types import Policy
from agentgym.envs.webshop.env import WebShopEnv
from agentgym.errors import UsageError
from agentgym.inference.models.language_model import save_model
from agentgym.inference.models.tiny import tiny_model, word_tokenizer
from agentgym.vector.serial import SerialVectorEnv
from tests.corridor import CorridorVectorEnv, RightPolicy

LANGUAGE_AGENTS = ("prompting", "react", "reflexion")


@pytest.fixture
def envs():
    return CorridorVectorEnv(2, autoreset_mode="Disabled")


@pytest.mark.parametrize("kind", [kind for kind in AGENTS if kind not in (IMPORTED, "human")])
def test_every_agent_can_be_made(kind, envs, tmp_path):
    script = tmp_path / "script.txt"
    script.write_text("right\n")
    save_model(tmp_path / "model", tiny_model("0.1m", word_tokenizer(["go"])))
    options = {
        "scripted": {"path": str(script)},
        "model": {"path": str(tmp_path / "model"), "wording": "terse", "answer": "plain"},
        **{kind: {"endpoint": "http://127.0.0.1:9/v1", "model": "m"} for kind in LANGUAGE_AGENTS},
    }
    shop = SerialVectorEnv(1, env_class=WebShopEnv, autoreset_mode="Disabled")
    slots = shop if kind in ("shopper", "rules") else envs
    assert isinstance(make_agent(kind, slots, **options.get(kind, {})), Policy)


def test_the_oracle_is_the_environments(envs):
    assert isinstance(make_agent("oracle", envs), RightPolicy)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("oracel", {}, r"unknown agent 'oracel' \(did you mean 'oracle'\?\); choose one of random, "),
        ("random", {"seed": 1}, "agent 'random' has no option 'seed'; it takes none"),
        ("scripted", {"pth": "x"}, r"no option 'pth' \(did you mean 'path'\?\); it takes path"),
        ("scripted", {"path": 3}, "agent 'scripted': option path must be a string, got 3"),
        (
            "imported",
            {"origin": "a paper", "dialect": "jsonl", "log_sha256": ""},
            r"an imported run \(a paper\) cannot be played further",
        ),
        ("scripted", {}, "agent 'scripted' needs the option 'path'"),
    ],
)
def test_bad_agents(envs, kind, options, message):
    with pytest.raises(UsageError, match=message):
        make_agent(kind, envs, **options)


def test_a_type_that_only_type_checkers_know_hides_no_other_option(monkeypatch):
    def make(envs: "Unknown", *, memory: int = 1, other: "Unknown" = None): ...  # noqa: F821

    module = types.ModuleType("of_a_stranger")
    module.make = make
    monkeypatch.setitem(sys.modules, "of_a_stranger", module)
    check_agent("of_a_stranger:make", {"memory": 2, "other": "any"})
    with pytest.raises(UsageError, match="option memory must be a whole number, got 'abc'"):
        check_agent("of_a_stranger:make", {"memory": "abc"})
