"""The example of an agent that is not ours: the pages that it shows, and what it adds to a pool."""

import re

from agentgym.registration import open_env
from agentgym.rollout.datapool import DataPool
from examples.gateway_agent import play, read
from tests.serving.gateway_stand_ins import SayingEngine, make_model, stored, talking

ENV = "agentgym/WebShop-v0"
OPTIONS = {"difficulty": "easy", "max_steps": 8}


def test_letters_stand_behind_what_can_be_clicked():
    env = open_env(ENV, split="train", options=OPTIONS)
    seen, info = env.reset(seed=0)
    for letter, buttons in zip("Aaa", ("A", "EC", "EDFGHB"), strict=True):
        page, actions = read(seen, info["goal"], list(info["admissible_actions"]))
        assert re.findall(r" :(\w)$", page, re.MULTILINE) == list(actions)
        assert "".join(filter(str.isupper, actions)) == buttons
        expected = {each for each in info["admissible_actions"] if not each.startswith("search")}
        assert {each for each in actions.values() if not each.startswith("search")} == expected
        seen, *_, info = env.step(actions[letter])
        assert info["action_is_valid"]


def test_the_agent_fills_the_pool(tmp_path):
    model = make_model()
    engine = SayingEngine(model, ["A", "a", "?"])
    with (
        DataPool(tmp_path / "pool") as pool,
        talking(model, engine, env=ENV, env_options=OPTIONS | {"max_steps": 3}, pool=pool) as gateway,
    ):
        end = play(gateway.url, 0, group="shop 0", group_size=1)
        ((episode, _),) = stored(pool)
    assert (end["calls"], end["score"]) == (3, 0.0)
    search, click, nothing = episode.steps
    assert search.completion.action.startswith("search[")
    assert click.completion.action.startswith("click[")
    assert (nothing.completion.action, nothing.valid) == ("?", False)
