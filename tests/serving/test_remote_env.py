"""Environments on a server behave as the environments themselves."""

import json
import pickle
import socket
from contextlib import closing

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

import agentgym
from agentgym.core.queries import UnansweredError
from agentgym.errors import UsageError
from agentgym.registration import open_env, open_vector
from agentgym.retrieval.engines.http_client import HttpAnswer, HttpClient
from agentgym.serving.env.client import RemoteVectorEnv
from tests.golden import random_actions
from tests.serving.playing import serving

SUITES = ("Sokoban", "VisualSokoban", "EZPoints", "ALFWorld", "WebShop", "HotpotQA", "PaperSearch", "Sotopia")


@pytest.fixture(scope="module")
def server():
    with serving() as running:
        yield running


def same(ours, theirs):
    """Return whether two values are equal, arrays included, and of the same types."""
    if isinstance(ours, dict):
        return list(ours) == list(theirs) and all(same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, tuple):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return type(ours) is type(theirs) and bool(np.all(ours == theirs))


def choices(info):
    """Return admissible actions, their slots filled."""
    return [action.replace("<", "").replace(">", "") for action in info["admissible_actions"]]


@pytest.mark.parametrize("suite", SUITES)
def test_episodes_are_the_environments_own(suite):
    env_id = f"agentgym/{suite}-v0"
    near = open_env(env_id)
    with serving(env_id, sessions=2) as server:
        far = agentgym.remote(server.url, env_id)
        assert far.observation_space == near.observation_space
        assert (far.max_steps, far.action_kind) == (near.max_steps, near.action_kind)
        assert far.metadata["render_fps"] == near.metadata["render_fps"]
        named = {"task": near.tasks[3].id}
        for seed, options in ((0, None), (None, None), (None, named), (7, {"rollout": 1})):
            assert same(far.reset(seed=seed, options=options), near.reset(seed=seed, options=options))
            choose, ended = random_actions(seed or 1, "no such action \ud800"), False
            for _ in range(12):
                if ended:
                    break
                info = near._info()
                action = choose(info | {"admissible_actions": choices(info)})
                played = near.step(action)
                assert same(far.step(action), played)
                ended = played[2] or played[3]
            assert far.admissible_actions() == near.admissible_actions()
            assert far.state_hash() == near.state_hash()
            assert far.measures() == near.measures()
        assert far.snapshot().to_bytes() == near.snapshot().to_bytes()
        far.close()
        assert len(server.service.sessions) == 0


def test_snapshots_go_from_here_to_there_and_back(server):
    far, near = agentgym.remote(server.url), open_env("agentgym/Sokoban-v0")
    far.reset(seed=1)
    far.step("up")
    held = far.snapshot()
    ahead = [far.step(action) for action in ("left", "down")]
    near.restore(held)
    assert same([near.step(action) for action in ("left", "down")][1], ahead[1])
    assert same(far.restore(near.snapshot()), (near._observe(), near._info()))
    far.restore(held)
    assert same(far.step("left"), ahead[0])


def test_it_is_made_by_gymnasium(server):
    with gymnasium.make("agentgym/Remote-v0", url=server.url) as far:
        _, info = far.reset(seed=1)
        assert far.step("up")[4]["turn"] == info["turn"] + 1
    with pytest.raises(ResetNeeded, match="plays no task yet"):
        agentgym.remote(server.url).state_hash()


def test_tasks_are_listed(server):
    far, near = agentgym.remote(server.url), open_env("agentgym/Sokoban-v0")
    assert (len(far.tasks), far.tasks.split) == (len(near.tasks), "train")
    assert far.tasks.manifest_sha256 == near.tasks.manifest_sha256
    assert [far.tasks[5].id, far.tasks[-1].source_id] == [near.tasks[5].id, near.tasks[-1].source_id]


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_slots_are_those_of_the_vector_environment(server, mode):
    near = agentgym.make_vec("agentgym/Sokoban-v0", 5, autoreset_mode=mode)
    with closing(
        gymnasium.make_vec("agentgym/Remote-v0", num_envs=5, url=server.url, autoreset_mode=mode)
    ) as far:
        tasks = [near.tasks[i].id for i in (0, 0, 1, 2, 1)]
        begun = [envs.reset(seed=7, options={"tasks": tasks}) for envs in (far, near)]
        assert same(*begun)
        rng = np.random.default_rng(0)
        for turn in range(20):
            actions = rng.choice(["up", "down", "left", "right", "jump"], 5).tolist()
            moved = [envs.step(actions) for envs in (far, near)]
            assert same(*moved)
            over = moved[0][2] | moved[0][3]
            if mode == "Disabled" and over.any():
                assert same(*(envs.reset(options={"reset_mask": over}) for envs in (far, near)))
            if turn == 10:
                assert same(far.copy(0, 3), near.copy(0, 3))
                masked = {"reset_mask": np.array([True, False, False, True, False]), "tasks": tasks}
                assert same(far.reset(options=masked), near.reset(options=masked))
                assert same(far.step_at([3, 0], ["up", "left"]), near.step_at([3, 0], ["up", "left"]))
        assert far.measures(2) == near.measures(2)


def test_ended_episodes_and_forgotten_sessions_are_told_apart(server):
    with serving(options={"max_steps": 1}, sessions=2) as short:
        far = agentgym.remote(short.url, max_steps=1)
        far.reset(seed=0)
        assert far.step("up")[3] is True
        with pytest.raises(ResetNeeded, match="is over"):
            far.step("up")
        assert far.admissible_actions() == ()
        far.reset()
        short.service.sessions.close([far._slots._sessions[0]])
        with pytest.raises(ResetNeeded, match="idle too long"):
            far.step("up")
        far.reset()
        assert far.step("up")[3] is True


def test_what_was_played_by_another_is_not_played_twice(server):
    far = agentgym.remote(server.url)
    far.reset(seed=0)
    server.play("step", action="up", session_id=far._slots._sessions[0])
    with pytest.raises(ResetNeeded, match="it is at step 1, not 0"):
        far.step("up")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"env_id": "agentgym/Chess-v0"}, "serves agentgym/Sokoban-v0, not 'agentgym/Chess-v0'"),
        ({"split": "test"}, "serves agentgym/Sokoban-v0 with split='train'"),
        ({"boxes": 2}, "serves agentgym/Sokoban-v0 without boxes: start another server for 2"),
        ({"timeout": 0}, "a timeout in seconds"),
        ({"url": "ftp://127.0.0.1"}, "write http://HOST:PORT"),
    ],
)
def test_mistakes_are_a_line(server, options, line):
    with pytest.raises(UsageError) as raised:
        agentgym.remote(**{"url": server.url, **options})
    assert line in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_wrong_token_and_a_server_that_is_away_are_a_line(server):
    with serving(token="secret", sessions=2) as guarded:
        with pytest.raises(UsageError, match="asks for a token"):
            agentgym.remote(guarded.url, token="other")
        far = agentgym.remote(guarded.url, token="secret")
        far.reset(seed=0)
    with pytest.raises(UnansweredError, match=r"the environment server http://[0-9.:]+ cannot be asked"):
        far.step("up")
    far.close()  # its session ends without it
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(UnansweredError, match="Connection refused"):
        agentgym.remote(f"http://127.0.0.1:{port}")


def test_another_server_is_none_of_an_environment(server, monkeypatch):
    for about in ({}, {"id": 3}, {"id": "x", "options": 3}, {"id": "x", "options": {}}):
        answer = HttpAnswer(200, json.dumps(about).encode(), 0.0)
        with monkeypatch.context() as patch:
            patch.setattr(HttpClient, "send", lambda *asked, answer=answer: answer)
            with pytest.raises(UnansweredError, match="gives no answer of an environment server"):
                agentgym.remote(server.url)
    with pytest.raises(UsageError, match="no such route"):
        agentgym.remote(f"{server.url}/elsewhere")


def test_sessions_are_not_pickled(server):
    envs = RemoteVectorEnv(1, url=server.url)
    with pytest.raises(UsageError, match="is not copied"):
        pickle.dumps(envs)
    assert open_vector("agentgym/Sokoban-v0", 1).max_steps == envs.max_steps
