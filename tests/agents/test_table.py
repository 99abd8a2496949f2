import pytest

from agentgym.agents import AGENTS, make_agent
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
        ("scripted", {"path": 3}, "path is the name of a file, got 3"),
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
