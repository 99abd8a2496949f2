"""The adapter for verl-agent: how rows, tasks and anchors are laid out, and what is refused.

`test_verl_agent_recorded.py` replays what its own workers did.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from agentgym.core.tasks import ListTaskSet
from agentgym.errors import UsageError
from tests.bridges.verl_agent_stand_in import MANAGERS, config, make_envs, standing_in


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    yield from standing_in(tmp_path, monkeypatch)


BUILTIN = {
    "alfworld": {"dataset": "builtin"},
    "webshop": {"dataset": "builtin", "goals": None, "splits": ["train", "test"]},
    "sokoban": {},
}


@pytest.mark.parametrize("suite", sorted(BUILTIN))
def test_rows_are_groups_of_one_task_side_by_side(suite, checkout):
    train, valid = make_envs(config(suite, tasks=3, group=2, validation=2, **BUILTIN[suite]))
    first, infos = train.reset(None)
    _, validation = valid.reset(None)
    tasks = [info["task_id"] for info in infos]
    assert tasks[::2] == tasks[1::2]
    assert len(set(tasks)) == 3
    assert len({info["task_id"] for info in validation}) == 2
    assert first["anchor"] == [info["state_hash"] for info in infos]
    assert first["anchor"][::2] == first["anchor"][1::2]
    # both live at once: a step of one leaves the other where it is
    train.step([1 if suite == "sokoban" else "look"] * 6)
    assert valid.envs.infos == validation
    assert [info["task_id"] for info in train.reset(None)[1]] != tasks
    again, _ = make_envs(config(suite, tasks=3, group=2, validation=2, **BUILTIN[suite]))
    assert [info["task_id"] for info in again.reset(None)[1]] == tasks
    panel = valid.envs.panel
    assert (len(panel.tasks), panel.name.endswith("[:2]")) == (2, True)
    played = [[info["task_id"] for info in valid.reset(None)[1]] for _ in range(2)]
    assert played == [[task.id for task in panel.tasks]] * 2
    for manager in (train, valid, again):
        manager.close()


@pytest.mark.parametrize("suite", sorted(BUILTIN))
def test_episodes_play_the_tasks_that_kwargs_name(suite, checkout):
    train, _ = make_envs(config(suite, tasks=2, group=2, **BUILTIN[suite]))
    known = train.envs.envs.tasks
    named = [known[5].id, known[5].id, known[9].source_id, known[9].source_id]
    _, infos = train.reset(np.array([{"task": name} for name in named], dtype=object))
    assert [info["task_id"] for info in infos] == [known[i].id for i in (5, 5, 9, 9)]
    with pytest.raises(UsageError, match="env_kwargs name tasks"):
        train.reset([{"task": named[0], "question": "?"}] * 4)
    with pytest.raises(UsageError, match="no task 'nowhere'"):
        train.reset([{"task": "nowhere"}] * 4)


def test_no_groups_and_fewer_tasks_than_rows(checkout):
    train, _ = make_envs(config("sokoban", tasks=5, group=0))
    assert len(train.reset()[1]) == 5
    tasks = train.envs.envs.tasks
    train.envs.envs.prototype.tasks = ListTaskSet("few", tasks[:2], dataset="few", suite="sokoban")
    assert {info["task_id"] for info in train.reset()[1]} <= {task.id for task in tasks[:2]}
    train.envs.envs.prototype.tasks = ListTaskSet("five", tasks[:5], dataset="five", suite="sokoban")
    assert {info["task_id"] for info in train.reset()[1]} == {task.id for task in tasks[:5]}


def test_members_of_a_group_are_attempts_of_their_own(checkout):
    train, _ = make_envs(config("webshop", tasks=2, group=3, **BUILTIN["webshop"], noise=1.0))
    train.reset()
    assert [env.rollout for env in train.envs.envs.envs] == [0, 1, 2] * 2


def test_training_and_validation_draw_from_generators_of_their_own(checkout):
    drawn = [
        [info["task_id"] for info in manager.reset()[1]]
        for manager in make_envs(config("sokoban", tasks=4, group=1, validation=4, splits=["test", "test"]))
    ]
    assert drawn[0] != drawn[1]


def test_the_configuration_of_the_checkout_is_followed(checkout):
    seen = config("alfworld", dataset="builtin")
    seen.env.alfworld.eval_dataset = "eval_out_of_distribution"
    assert [manager.envs.envs.tasks.split for manager in make_envs(seen)] == ["train", "valid_unseen"]
    boxes = config("sokoban")
    boxes.env.sokoban.num_boxes = 2
    game = make_envs(boxes)[0].envs.envs.prototype
    assert (game.tasks[0].content.boxes, game.max_steps, game.upstream_count) == (2, 15, True)


def test_hgpo_has_managers_of_its_own(checkout):
    folder = checkout / "recipe" / "hgpo"
    folder.mkdir(parents=True)
    (folder / "env_manager.py").write_text(
        MANAGERS.replace("(Manager)", "(Other)").replace("class Manager", "class Other")
    )
    train, valid = make_envs(config("sokoban"), module="recipe.hgpo")
    assert [type(manager).__mro__[2].__name__ for manager in (train, valid)] == ["Other"] * 2


def test_text_is_the_other_anchor(checkout):
    train, _ = make_envs(config("alfworld", dataset="builtin", anchor="text"))
    observations, _ = train.reset()
    assert observations["anchor"] == observations["text"]
    assert train.step(["look"] * 4)[0]["anchor"] == train.envs.texts


def test_similarity_compares_texts(checkout):
    for similar, anchor in ((True, "text"), (False, "state")):
        given = config("sokoban")
        given.algorithm = SimpleNamespace(gigpo=SimpleNamespace(enable_similarity=similar))
        assert [manager.envs.anchor for manager in make_envs(given)] == [anchor] * 2
    given = config("sokoban", anchor="state")
    given.algorithm = SimpleNamespace(gigpo=SimpleNamespace(enable_similarity=True))
    with pytest.raises(UsageError, match=r"unknown anchor 'state'.*; choose one of text"):
        make_envs(given)


def test_a_row_that_is_over_stays_as_it_is_and_pays_nothing(checkout):
    train, _ = make_envs(config("alfworld", tasks=1, group=2, dataset="builtin"))
    _, infos = train.reset([{"task": train.envs.envs.tasks[0].id}] * 2)
    oracle = train.envs.envs.oracle()
    paid = []
    for _ in range(60):
        _, rewards, dones, infos = train.step([*plan(train, oracle), "inventory"])
        paid.append(rewards[0])
        if dones[0]:
            break
    assert (paid[-1], set(paid[:-1]), dones, infos[0]["won"]) == (10.0, {0.0}, [True, False], True)
    kept, before = infos[0], train.envs.texts[0]
    _, rewards, dones, infos = train.step(["look", "look"])
    assert (rewards, dones, train.envs.texts[0]) == ([0.0, 0.0], [True, False], before)
    assert infos[0] == kept
    assert infos[0] is not kept  # the manager writes into each step's infos
    while not all(dones):
        _, rewards, dones, infos = train.step(["look", "look"])
    assert infos[1]["turn"] == 50
    assert not infos[1]["won"]


def plan(manager, oracle):
    """Return the oracle's action for the first row."""
    request = SimpleNamespace(
        snapshot=lambda: manager.envs.envs.snapshot(0),
        admissible_actions=manager.envs.get_admissible_commands[0],
    )
    return [completion.action for completion in oracle.act([request])]


def test_sokoban_stands_still_at_the_cost_of_a_step_and_counts_none(checkout):
    train, _ = make_envs(config("sokoban", tasks=1, group=2))
    start, _ = train.reset()
    for _ in range(20):  # more than max_steps
        observations, rewards, dones, infos = train.step([0, 0])
        assert (rewards, dones, observations["text"]) == ([-0.1, -0.1], [False, False], start["text"])
    for _ in range(15):
        _, rewards, dones, infos = train.step([1, 0])
    assert dones == [True, False]
    assert [info["turn"] for info in infos] == [15, 0]
    assert train.step([0, 0])[1] == [0.0, -0.1]
    assert set(start["text"][0]) == set(" #_OXP\t\n")


def test_sokoban_in_pictures(checkout):
    train, _ = make_envs(config("sokoban", tasks=1, group=2, mode="rgb_array"))
    first, _ = train.reset()
    assert [picture.shape for picture in first["text"]] == [(96, 96, 3)] * 2  # the stand-in calls them text
    later = train.step([2, 0])[0]["text"]
    assert (later[1] == first["text"][1]).all()
    assert train.envs.render(mode="tiny_rgb_array")[0].startswith(" # \t # \t")


def test_webshop_says_what_can_be_clicked(checkout):
    train, _ = make_envs(config("webshop", tasks=1, group=2, **BUILTIN["webshop"]))
    _, infos = train.reset()
    assert infos[0]["available_actions"] == {"has_search_bar": True, "clickables": ["search"]}
    _, rewards, _, infos = train.step(["search[lamp]", "search[chair]"])
    offered = infos[0]["available_actions"]
    assert not offered["has_search_bar"]
    assert offered["clickables"][0] == "back to search"
    assert (rewards, infos[0]["task_score"]) == ([0.0, 0.0], 0.0)
    oracle, dones = train.envs.envs.oracle(), [False, False]
    while not dones[0]:
        _, rewards, dones, infos = train.step([*plan(train, oracle), "click[back to search]"])
    assert (rewards, dones) == ([10.0, 0.0], [True, False])
    assert (infos[0]["task_score"], infos[0]["won"]) == (1.0, True)


def test_success_is_counted_by_families_of_the_checkout(checkout):
    train, _ = make_envs(config("alfworld", tasks=40, group=1, dataset="builtin"))
    _, infos = train.reset()
    families = {info["task_type"]: info["extra.gamefile"].partition("/")[0] for info in infos}
    assert families["pick"] == "pick_and_place_simple"
    assert families["heat"] == "pick_heat_then_place_in_recep"


@pytest.mark.assets
def test_games_are_found_where_the_checkout_finds_them(checkout, monkeypatch, tmp_path):
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / "nothing"))
    with pytest.raises(UsageError, match="nothing"):
        make_envs(config("alfworld"))
    monkeypatch.delenv("ALFWORLD_DATA")
    train, valid = make_envs(config("alfworld"))
    assert (train.envs.envs.tasks.split, valid.envs.envs.tasks.split) == ("train", "valid_seen")
    assert train.envs.envs.tasks.manifest["dataset"] == "official"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"suite": "alfworld/AlfredThorEnv"}, "AlfredThorEnv"),
        ({"suite": "alfworld", "anchor": "hash"}, "unknown anchor 'hash'"),
        ({"suite": "sokoban", "mode": "list"}, r"no Sokoban \(list\)"),
        ({"suite": "sokoban", "num_boxs": 2}, "unknown option 'num_boxs'"),
        ({"suite": "search", "serch": "bm25"}, "unknown option of Search 'serch'"),
    ],
)
def test_what_is_not_offered_is_refused_in_one_line(changed, message, checkout):
    with pytest.raises(UsageError, match=message) as refused:
        make_envs(config(**changed))
    assert "\n" not in str(refused.value)
