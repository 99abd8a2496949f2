"""The example of an agent that is not ours, and the form in which its warm start is shown."""

import json
import re

from agentgym.agents import make_agent
from agentgym.registration import open_env, open_vector
from agentgym.rollout.datapool import DataPool
from agentgym.rollout.worker import RolloutWorker
from benchmarks.gateway_learning import ENV, FOUND, OPTIONS, PAGE, Shown, page
from examples.gateway_agent import play, read
from tests.serving.gateway_stand_ins import SayingEngine, make_model, stored, talking


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


def test_the_agent_fills_the_pool_with_the_pages_that_its_warm_start_was_shown(tmp_path):
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

    envs = open_vector(ENV, 1, split="train", options=OPTIONS)
    rules, shown = make_agent("rules", envs), Shown(envs, model)
    (group,) = RolloutWorker(envs, shown, env_id="").collect([end["task_id"]], group_size=1, seed=0)
    (member,) = group.trajectories
    (same,) = RolloutWorker(envs, rules, env_id="").collect([end["task_id"]], group_size=1, seed=0)
    assert [step.completion.action for step in member.steps] == [
        step.completion.action for step in same.trajectories[0].steps
    ]
    first = member.steps[0].completion
    assert first.prompt_ids == search.completion.prompt_ids
    assert model.chat.decode(first.response_ids[:-1]) == "A"


def test_the_committed_page_follows_from_its_figures():
    found = json.loads(FOUND.read_text())
    assert PAGE.read_text() == page(found)
    assert len(found["runs"]) >= 3
    for run in found["runs"]:
        assert run["after"]["won"] > found["before"]["won"] + 0.2
