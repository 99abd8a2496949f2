"""The environment: the contract in its variants, noise, snapshots, and what episodes share."""

import pickle
import re
import subprocess
import sys
import tracemalloc

import gymnasium
import pytest

import agentgym  # noqa: F401 (registers)
from agentgym.agents.random import RandomPolicy
from agentgym.checking import check_agent_env
from agentgym.checking.evidence import begin, first_difference, generator, random_rollout
from agentgym.core.rng import KeyRng
from agentgym.envs.webshop.engine.noise import OFFERS, Noise, stream_of
from agentgym.envs.webshop.engine.pages import Node
from agentgym.envs.webshop.engine.visit import Visit
from agentgym.envs.webshop.env import WebShopEnv, WebShopState
from agentgym.errors import UsageError
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from agentgym.vector.serial import SerialVectorEnv
from tests.webshop.corner import LAMPS, RUG, corner_shop, play, visit_shop

RUG_OPEN = ("search[rug]", f"click[{RUG.asin.lower()}]")


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"observation": "text_rich"}, {"observation": "gigpo", "show_attributes": True}, {"hide_score": False}],
)
def test_variants_keep_the_contract(options):
    check_agent_env(lambda **given: WebShopEnv(**options, **given))


def walk(env, seed, steps=12):
    """Return the observations, rewards and hashes of a random episode, and its actions."""
    start = begin(env, seed)
    actions, beats = random_rollout(env, generator(seed), steps)
    return [(beat.observation, beat.reward, beat.info["state_hash"]) for beat in (start, *beats)], actions


def test_the_state_hash_is_the_state_s_not_the_view_s():
    world = corner_shop()
    views = (
        {}, {"observation": "text_rich"}, {"parity": "upstream"}, {"noise": 1.0},
        {"previous_observations": 2}, {"hide_score": False}, {"observation": "gigpo"},
        {"show_attributes": True},
    )  # fmt: skip
    actions = (
        "search[lamp rug]",
        f"click[{RUG.asin.lower()}]",
        "click[oval]",
        "click[nothing]",
        "click[< prev]",
    )
    hashes = set()
    for view in views:
        env = WebShopEnv(dataset=world, split="upstream-test", goals="human", **view)
        _, info = env.reset(seed=1, options={"task": env.tasks[0].id})
        play(env, "search[lamp]")
        hashes.add((info["state_hash"], *(env.step(action)[4]["state_hash"] for action in actions)))
    assert len(hashes) == 1


def test_every_part_of_a_visit_is_hashed():
    env, *_ = visit_shop()
    visit = Visit("item", "a", 1, RUG.asin, (("color", "red"),), (RUG.asin,))
    others = (
        visit._replace(page="features"),
        visit._replace(query="a "),
        visit._replace(number=2),
        visit._replace(asin=LAMPS[0].asin),
        visit._replace(options=()),
        visit._replace(options=(("color", "red"), ("size", "x"))),
        visit._replace(visited=()),
        visit._replace(query="a', 1, 'B0000000RU"),
        visit._replace(query="\u00e4"),
        visit._replace(query="\\xe4"),
    )
    hashes = set()
    for each in (visit, *others):  # which restore would refuse: no play leads there
        env._set_state(WebShopState(each))
        hashes.add(env.state_hash())
    assert len(hashes) == 1 + len(others)
    env._set_state(WebShopState(visit._replace(score=0.5)))
    assert env.state_hash() in hashes  # a score follows from the rest


def test_paths_to_one_state_hash_alike():
    env, *_ = visit_shop()
    one = play(env, *RUG_OPEN, "click[oval]", "click[grün]")[4]["state_hash"]
    other = play(env, "click[grün]", "click[same]", "click[oval]", "click[description]", "click[< prev]")
    assert other[4]["state_hash"] == one


def test_noise_changes_observations_and_not_states():
    clean, actions = walk(visit_shop()[0], 4)
    env, *_ = visit_shop(noise=1.0, adverts=3)
    begin(env, 4)
    noisy = [env.step(action) for action in actions]
    assert [step[4]["state_hash"] for step in noisy] == [hashed for _, _, hashed in clean[1:]]
    assert [step[1] for step in noisy] == [reward for _, reward, _ in clean[1:]]
    for step, (observation, *_) in zip(noisy, clean[1:], strict=True):
        pieces = step[0].split(" [SEP] ")
        adverts = [piece for piece in pieces if any(_matches(offer, piece) for offer in OFFERS)]
        assert len(adverts) == 3
        for advert in adverts:
            pieces.remove(advert)
        assert " [SEP] ".join(pieces) == observation


def _is_advert(text):
    return any(_matches(offer, text) for offer in OFFERS)


def _matches(offer, text):
    return re.fullmatch(re.sub(r"\\\{\w+\\\}", ".+", re.escape(offer)), text) is not None


def test_noise_differs_from_visit_to_visit_and_comes_back_with_a_snapshot():
    env, *_ = visit_shop(noise=1.0)
    seen = {play(env, "search[rug]")[0] for _ in range(5)}
    assert len(seen) == 5
    snapshot = env.snapshot()
    again = [env.step("search[rug]")[0] for _ in range(3)]
    env.reset(seed=9)
    observation, _ = env.restore(snapshot)
    assert observation in seen
    assert [env.step("search[rug]")[0] for _ in range(3)] == again
    one, other = (visit_shop(noise=1.0)[0] for _ in range(2))
    assert walk(one, 3) == walk(other, 3)
    assert walk(one, 3)[0] != walk(one, 5)[0]


def test_members_of_a_group_meet_adverts_of_their_own():
    """The actions are one episode's, so states repeat: texts tell apart what hashes do not."""
    env_id, options = "agentgym/WebShop-v0", {"split": "test", "noise": 1.0}
    envs = gymnasium.make_vec(env_id, num_envs=4, autoreset_mode="Disabled", **options)
    worker = RolloutWorker(envs, envs.oracle(), env_id=env_id)
    (group,) = worker.collect(envs.tasks.ids[:1], group_size=8, seed=5)
    envs.close()
    turns = list(zip(*(member.steps for member in group.trajectories), strict=True))
    assert len(turns) > 2
    for turn in turns:
        assert len({step.state_hash for step in turn}) == 1
        assert len({step.observation for step in turn}) == 8
    for member in group.trajectories:  # what a run records of an episode is enough to see it again
        env = WebShopEnv(**options)
        seen = [
            env.reset(seed=member.seed, options={"task": member.task_id, "rollout": member.rollout})[0],
            *(env.step(step.action)[0] for step in member.steps),
        ]
        assert seen == [*(step.observation for step in member.steps), member.final_observation]


@pytest.mark.parametrize("observation", ["text", "text_rich", "gigpo"])
def test_adverts_stand_below_the_instruction_and_are_all_shown(observation):
    shown = {"observation": observation, "adverts": 3}
    clean, *_ = visit_shop(observation=observation)
    for seed in range(12):
        env, *_ = visit_shop(noise=1.0, **shown)
        observation_now, _ = env.reset(seed=seed, options={"task": clean.task.id, "rollout": seed})
        pages = [observation_now, *(env.step(action)[0] for action in RUG_OPEN)]
        for text in pages:
            pieces = re.split(r" \[SEP\] |\n", text)
            adverts = [
                piece for piece in pieces if any(_matches(offer, piece.strip("'")) for offer in OFFERS)
            ]
            assert len(adverts) == 3
            if observation != "gigpo":
                label = next(i for i, piece in enumerate(pieces) if piece.strip() == "Instruction:")
                assert pieces[label + 1].strip() == clean.goal.text.strip()
                assert all(pieces.index(advert) > label + 1 for advert in adverts)


def test_noise_comes_as_often_as_it_should():
    page = [Node("text", "a"), Node("text", "b")]
    noise = Noise(0.3, 1)
    assert stream_of(7, 0) != stream_of(7, 1) != stream_of(8, 1)
    counts = [len(noise.spread(page, KeyRng(seed))) - 2 for seed in range(1000)]
    assert set(counts) == {0, 1}
    assert sum(counts) / 1000 == pytest.approx(0.3, abs=0.05)
    assert page == [Node("text", "a"), Node("text", "b")]


@pytest.mark.parametrize("options", [{}, {"observation": "text_rich", "noise": 0.5, "previous_actions": 2}])
def test_snapshots_are_small_and_lead_on_exactly(options):
    env, *_ = visit_shop(**options)
    play(env, *RUG_OPEN, "click[oval]")
    snapshot = pickle.loads(pickle.dumps(env.snapshot()))
    assert len(pickle.dumps(snapshot)) < 4000
    after = [
        env.step(action)[:4] for action in ("click[features]", "nonsense", "click[< prev]", "click[buy now]")
    ]
    env.reset(seed=8)
    twin = env.spawn()
    for each in (env, twin):
        each.restore(snapshot)
        repeated = [
            each.step(action)[:4]
            for action in ("click[features]", "nonsense", "click[< prev]", "click[buy now]")
        ]
        assert first_difference(repeated, after) is None


def test_a_process_opens_a_shop_once():
    one, other = WebShopEnv(split="test"), WebShopEnv(split="valid", observation="text_rich")
    assert one.world is other.world
    envs = gymnasium.make_vec("agentgym/WebShop-v0", num_envs=3)
    assert isinstance(envs, SerialVectorEnv)
    assert all(env.world is one.world and env.view is envs.prototype.view for env in envs.envs)


def test_slots_cost_next_to_nothing():
    """128 episodes that have been played for a while, against one."""

    def taken(slots):
        tracemalloc.start()
        envs = SerialVectorEnv(slots, env_class=WebShopEnv, autoreset_mode="NextStep", split="test")
        envs.reset(seed=0)
        for number in range(10):
            envs.step([f"search[{['lamp', 'shirt', 'shoe', 'rug'][number % 4]}]"] * slots)
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return size

    list(WebShopEnv(split="test").tasks)  # these, and what one episode makes, are made once
    taken(1)
    assert taken(128) - taken(1) < 127 * 8_000


def test_the_oracle_buys_the_best_and_random_does_not():
    envs = SerialVectorEnv(8, env_class=WebShopEnv, autoreset_mode="Disabled", split="test")
    specs = [EpisodeSpec(task.id, number, 0) for number, task in enumerate(envs.tasks[:24])]

    def mean_score(policy):
        return sum(played.score for played in RolloutWorker(envs, policy, env_id="shop").run(specs)) / len(
            specs
        )

    assert mean_score(envs.oracle()) > 0.95
    assert mean_score(RandomPolicy("template")) < 0.5


def test_importing_the_package_imports_neither_search_nor_scores():
    code = (
        "import sys, agentgym; import agentgym.registration; "
        "print([m for m in ('rapidfuzz', 'Stemmer', 'spacy', 'agentgym.envs.webshop') if m in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def test_the_first_products_are_lamps():
    env, *_ = visit_shop()
    assert env.world.item(LAMPS[2].asin) is env.world.at(2)
    with pytest.raises(KeyError, match="corner has no product 'B'"):
        env.world.item("B")


def test_missing_data_is_one_line():
    with pytest.raises(UsageError) as caught:
        WebShopEnv(dataset="webshop/no-such-set")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"dataset": None}, "dataset must be a string, got None"),
        ({"dataset": "~nobody-of-this-name/shop"}, "no products at"),
        ({"dataset": "builtin:1000001"}, "the built-in shop has at most 1000000 products, got 1000001"),
        ({"tagger": ["words"]}, r"tagger must be a string, got \['words'\]"),
        ({"search": ["bm25"]}, r"unknown search \['bm25'\]"),
        ({"special_queries": True}, "unknown option 'special_queries'"),
        ({"hide_score": "no"}, "hide_score must be true or false or None, got 'no'"),
        ({"show_attributes": "no"}, "show_attributes must be true or false, got 'no'"),
        ({"noise": "0.5"}, "noise must be a number, got '0.5'"),
        ({"noise": None}, "noise must be a number, got None"),
    ],
)
def test_options_of_another_type_are_refused(options, says):
    with pytest.raises(UsageError, match=says):
        WebShopEnv(**options)
