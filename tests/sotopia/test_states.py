"""State hashes, contexts, snapshots, options and manifests of conversations."""

from dataclasses import replace

import pytest

from agentgym import UsageError
from agentgym.envs.sotopia.actions import SocialAction
from agentgym.envs.sotopia.builtin.candidates import candidates
from agentgym.envs.sotopia.env import SotopiaEnv
from agentgym.envs.sotopia.ratings import Ratings
from tests.sotopia.episodes import started

# ---- hashes and states ---------------------------------------------------------------------------


def test_blanks_do_not_count_in_a_state():
    env, other = started(), started()
    env.step("speak[ Good\\n  day ]")
    other.step("speak[Good day]")
    assert env.state_hash() == other.state_hash()
    other.step("speak[Good  day!]")
    env.step("speak[good day!]")
    assert env.state_hash() != other.state_hash()


def test_the_sides_of_a_scenario_are_different_states():
    env, other = started(0), started(1)
    assert env.task.content.scenario == other.task.content.scenario
    assert env.state_hash() != other.state_hash()


def test_contexts_join_what_differs_in_words_alone():
    env, other = started(partner="silent"), started(partner="silent")
    env.step("speak[How are you]")
    other.step("speak[Nice weather]")
    assert env.state_hash() != other.state_hash()
    assert env.state_hash("context") == other.state_hash("context")
    offer = next(action for action in candidate_moves(env) if action.startswith("action[offer"))
    env.step(offer)
    other.step("speak[Well]")
    assert env.state_hash("context") != other.state_hash("context")


def candidate_moves(env):
    talk = env.snapshot().state.talk
    return [move.written for move in candidates(env.task.content.scenario, env.task.content.side, talk)]


def test_states_that_no_conversation_comes_to_are_refused():
    env = started()
    env.step("speak[Hello.]")
    snapshot = env.snapshot()
    talk = snapshot.state.talk
    turn = talk.turns[0]
    ratings = (Ratings(10, 5, 10, 0, 0, 5, 10),) * 2
    for wrong in (
        talk._replace(left=True),
        talk._replace(stale=True),
        talk._replace(turns=talk.turns[:1]),
        talk._replace(turns=(turn._replace(acting=(1,)), talk.turns[1])),
        talk._replace(
            turns=(turn._replace(actions=(SocialAction("speak", " a"), turn.actions[1])), talk.turns[1])
        ),
        talk._replace(
            turns=(turn._replace(actions=(SocialAction("speak", ""), turn.actions[1])), talk.turns[1])
        ),
        talk._replace(pending=SocialAction("none")),
    ):
        with pytest.raises(UsageError, match="snapshot is none of suite 'sotopia'"):
            env.restore(replace(snapshot, state=snapshot.state._replace(talk=wrong)))
    with pytest.raises(UsageError, match="ratings are not the judge's"):
        env.restore(replace(snapshot, state=snapshot.state._replace(ratings=ratings)))
    with pytest.raises(UsageError, match="ends when somebody leaves"):
        env.restore(replace(snapshot, terminated=True))
    assert env.snapshot() == snapshot


def test_a_snapshot_is_of_its_partner_and_judge():
    snapshot = started(partner="fair").snapshot()
    for options in ({"partner": "silent"}, {"view": "lite"}, {"order": "random"}, {"max_turns": 10}):
        with pytest.raises(UsageError, match="open its own"):
            started(**options).restore(snapshot)


def test_random_order_is_the_tasks():
    orders = set()
    for index in range(0, 16, 2):
        env = SotopiaEnv(split="test", order="random", mode="self-chat")
        env.reset(options={"task": env.tasks[index].id})
        draws = tuple(env._game.acting(number) for number in range(20))
        assert len(set(draws)) == 2
        orders.add(draws)
    assert len(orders) == 8


# ---- options -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"mode": "both"}, "unknown mode"),
        ({"order": "robin"}, "round-robin"),
        ({"view": 3}, "unknown view"),
        ({"reward": "goals"}, "did you mean 'goal'"),
        ({"unreadable": "x"}, "unknown unreadable"),
        ({"max_turns": 0}, "max_turns"),
        ({"max_turns": True}, "max_turns"),
        ({"partner": "fare"}, "did you mean 'fair'"),
        ({"partner": 3}, "partner must be a name"),
        ({"judge": "rule"}, "did you mean 'rules'"),
        ({"judge": {"model": "small"}}, "names no endpoint"),
        ({"judge": {"endpoint": "http://127.0.0.1:9/v1"}}, "'model' is missing"),
        (
            {"partner": {"endpoint": "http://127.0.0.1:9/v1", "model": "m", "wording": "no"}},
            "unknown wording",
        ),
        ({"dataset": ""}, "dataset is 'builtin'"),
        ({"split": "tests"}, "did you mean 'test'"),
    ],
)
def test_wrong_options_are_refused_in_one_line(options, match):
    with pytest.raises(UsageError, match=match) as refused:
        SotopiaEnv(**options)
    assert "\n" not in str(refused.value)


def test_keys_are_never_options():
    """And no message repeats what may be one."""
    key = "sk-marker-5ecr3t"
    table = {"endpoint": "http://127.0.0.1:9/v1", "model": "m"}
    for wrong in (
        table | {"api_key": key},
        table | {"key": key},
        table | {"key_env": key},
        table | {"endpoint": f"http://me:{key}@127.0.0.1:9/v1"},
        table | {"endpoint": f"http://127.0.0.1:9/v1?key={key}"},
    ):
        for part in ("partner", "judge"):
            with pytest.raises(UsageError) as refused:
                SotopiaEnv(**{part: wrong})
            assert key not in str(refused.value)


def test_partner_judge_and_rules_of_the_game_are_in_every_manifest(tmp_path):
    """So that rows with other ones never share a table."""
    table = {"endpoint": "http://127.0.0.1:9/v1", "model": "m", "key_env": "MY_API_KEY"}
    own = tmp_path / "judge.toml"
    own.write_text(
        'id = "own"\nversion = 1\ntext = "{context} {conversation}"\nrepair = "{problem}"\n', encoding="utf-8"
    )
    variants = [
        {},
        {"partner": "silent"},
        {"partner": table},
        {"partner": table | {"model": "n"}},
        {"partner": table | {"endpoint": "http://127.0.0.1:10/v1"}},
        {"partner": table | {"temperature": 0.1}},
        {"partner": table | {"format": "think-action"}},
        {"partner": table, "view": "lite"},
        {"judge": table},
        {"judge": table | {"model": "n"}},
        {"judge": table | {"temperature": 0.1}},
        {"judge": table | {"prompt": str(own)}},
        {"order": "random"},
        {"stale_rule": "0.1.4"},
        {"max_turns": 10},
        {"reward": "utterance"},
        {"mode": "self-chat"},
    ]
    envs = [SotopiaEnv(split="test", **options) for options in variants]
    assert len({env.tasks.manifest_sha256 for env in envs}) == len(variants)
    assert len({env.data_key for env in envs}) == len(variants)
    assert SotopiaEnv(split="test", judge=table | {"key_env": "OTHER_API_KEY"}).data_key == envs[8].data_key
    own.write_text(own.read_text().replace("{problem}", "No: {problem}"), encoding="utf-8")
    assert SotopiaEnv(split="test", judge=table | {"prompt": str(own)}).data_key != envs[11].data_key
