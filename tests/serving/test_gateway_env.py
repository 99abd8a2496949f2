"""Sessions of the gateway with an environment: which call owns which step; episodes; the journal."""

import http.client
import json
import multiprocessing
import random
import threading
from contextlib import contextmanager

import pytest

from agentgym.core.hashing import content_id
from agentgym.errors import UsageError
from agentgym.registration import open_env
from agentgym.rollout.datapool import DataPool
from tests.serving.gateway_stand_ins import SayingEngine, Talking, stored, talking

SOKOBAN = "agentgym/Sokoban-v0"


def assistant(text):
    return {"role": "assistant", "content": text}


def play(gateway, session, *actions):
    return [gateway.post(f"{session}/env/step", action=action) for action in actions]


def test_an_episode_is_the_environments_own_with_the_calls_that_chose_it(gateway, engine, pool):
    env = open_env(SOKOBAN)
    seen, info = env.reset(seed=3, options={"task": env.tasks[4].id})
    begun = gateway.post("/sessions", index=4, seed=3, group="g", group_size=2, labels=["a"])
    assert begun["env"]["observation"]["text"] == seen
    assert begun["env"]["metadata"]["state_hash"] == info["state_hash"]
    assert begun["task"] == env.tasks[4].id
    session = f"/sessions/{begun['session_id']}"
    engine.says = ["up, then left", "what else?", "a wall?"]
    first = gateway.say(session, seen)
    states, rewards = [info["state_hash"]], []
    for action in ("up", "left", "no such action"):
        (row,) = play(gateway, session, action)
        _, reward, _, _, info = env.step(action)
        rewards.append(reward)
        states.append(info["state_hash"])
        assert (row["reward"], row["metadata"]["state_hash"]) == (reward, info["state_hash"])
        if action == "left":
            second = gateway.say(session, seen, first, "And now?")
            third = gateway.say(session, seen, first, "And now?", second, "Look up.")
    assert third["content"] == "a wall?"
    state = gateway.get(f"{session}/env/state")
    assert (state["step_count"], state["state_hash"]) == (3, states[3])
    answer = gateway.post(f"{session}/complete", labels=["b"])
    ((trajectory, group),) = stored(pool)
    assert (group.name, group.size, group.labels, group.trainable) == ("g", 2, ("a", "b"), True)
    assert (answer["calls"], answer["end_reason"]) == (3, "agent_error")
    assert [id for id, _ in pool.episodes("g")] == [answer["episode"]]
    steps = trajectory.steps
    assert [step.action for step in steps] == ["up\nleft", "", "no such action"]
    assert [step.reward for step in steps] == [rewards[0] + rewards[1], 0.0, rewards[2]]
    assert [step.valid for step in steps] == [True, True, False]
    assert [step.state_hash for step in steps] == [states[0], states[2], states[2]]
    assert [step.next_state_hash for step in steps] == [states[2], states[2], states[3]]
    assert (trajectory.initial_hash, trajectory.task_id) == (states[0], env.tasks[4].id)
    assert (trajectory.env_id, trajectory.seed, trajectory.rollout) == (SOKOBAN, 3, 0)
    assert steps[0].observation == seen
    assert steps[0].admissible_actions
    traces = gateway.get(f"{session}/traces")
    for step, trace, request in zip(steps, traces, engine.requests, strict=True):
        assert list(step.completion.prompt_ids) == trace["prompt_token_ids"] == list(request.prompt_ids)
        assert list(step.completion.response_ids) == trace["completion_token_ids"]
        assert list(step.completion.logprobs) == trace["logprobs"]
        assert (step.reward, step.valid) == (trace["reward"], trace["valid"])
        assert step.completion.version == 3


def test_a_completed_session_answers_the_same_and_takes_nothing_more(gateway, pool):
    session = gateway.begin(index=0)
    gateway.say(session, "Which way?")
    answer = gateway.post(f"{session}/complete", reward=2.0, score=0.5, won=True)
    assert gateway.post(f"{session}/complete") == answer
    assert (answer["reward"], answer["score"], answer["won"], answer["end_reason"]) == (
        2.0,
        0.5,
        True,
        "success",
    )
    assert len(stored(pool)) == 1
    body = {"messages": [{"role": "user", "content": "go"}]}
    assert gateway.ask(f"{session}/v1/chat/completions", body)[0] == 409
    assert gateway.ask(f"{session}/env/step", {"action": "up"})[0] == 409
    assert gateway.get(session)["completed"] == answer
    assert gateway.gateway.env.sessions.ids() == ()


def test_an_episode_that_the_environment_ends_has_its_score(model, engine, pool):
    env = open_env(SOKOBAN, split="train")
    env.reset(seed=0, options={"task": env.tasks[0].id})
    with talking(model, engine, env=SOKOBAN, pool=pool, env_options={"max_steps": 2}) as gateway:
        session = gateway.begin(index=0)
        gateway.say(session, "Which way?")
        play(gateway, session, "up", "up")
        assert gateway.ask(f"{session}/env/step", {"action": "up"})[0] == 409
        gateway.post(f"{session}/complete")
    ((trajectory, _),) = stored(pool)
    assert (trajectory.end_reason, trajectory.steps[-1].truncated) == ("step_limit", True)
    assert trajectory.score == 0.0


def test_only_the_path_that_owns_the_steps_is_trained(gateway, pool):
    session = gateway.begin(index=0)
    side = gateway.say(session, "Plan.")  # of another agent; nothing continues it
    gateway.say(session, "Which way?")  # its answer never came
    said = gateway.say(session, "Which way?")
    play(gateway, session, "up")
    gateway.say(session, "Which way?", said, "Left?")
    other = gateway.say(session, "Which way?", said, "Right?")
    play(gateway, session, "left")
    gateway.say(session, "Which way?", said, "Right?", other, "Sure?")
    last = gateway.say(session, "Which way?", said, "Right?", other, "Sure?")
    gateway.post(f"{session}/complete")
    assert side
    assert last
    traces = gateway.get(f"{session}/traces")
    assert [trace["trained"] for trace in traces] == [False, False, True, False, True, False, True]
    ((trajectory, _),) = stored(pool)
    assert [step.action for step in trajectory.steps] == ["up", "left", ""]


def test_agents_that_write_each_prompt_anew_train_the_calls_that_act(gateway, pool):
    session = gateway.begin(index=0)
    for turn, action in enumerate(("up", "left", "down")):
        gateway.say(session, f"Turn {turn}. Which way?")
        play(gateway, session, action)
    gateway.post(f"{session}/complete")
    ((trajectory, _),) = stored(pool)
    assert [step.action for step in trajectory.steps] == ["up", "left", "down"]


def test_sessions_of_a_group_without_an_environment_are_of_one_task(model, engine, pool):
    with talking(model, engine, pool=pool) as gateway:
        gateway.begin(task="sum", group="g")
        gateway.begin(task="sum", group="g")
        status, answer = gateway.ask("/sessions", {"task": "product", "group": "g"})
        assert (status, answer["error"]) == (
            400,
            "group g is of another task or group_size: name another group",
        )


def test_without_steps_what_was_not_replaced_is_trained(model, engine, pool):
    with talking(model, engine, pool=pool) as gateway:
        session = gateway.begin(task="sum", env_id="test/Sums-v0", group="g")
        gateway.say(session, "2 + 2?")
        said = gateway.say(session, "2 + 2?")
        gateway.say(session, "2 + 2?", said, "Sure?")
        gateway.say(session, "3 + 3?")
        gateway.post(f"{session}/complete", reward=1.0)
    ((trajectory, group),) = stored(pool)
    assert [trace.observation for trace in trajectory.steps] == ["2 + 2?", "Sure?", "3 + 3?"]
    assert [step.reward for step in trajectory.steps] == [0.0, 0.0, 1.0]
    assert (trajectory.won, trajectory.score, trajectory.end_reason) == (True, 1.0, "success")
    assert trajectory.initial_hash == content_id(("test/Sums-v0", "sum"))
    assert (trajectory.env_id, trajectory.task_id) == ("test/Sums-v0", "sum")
    assert len(set(trajectory.state_hashes)) == 4
    assert group.trainable


def test_greedy_answers_are_not_trained_on(model, engine, pool):
    with talking(model, engine, pool=pool) as gateway:
        for temperatures, trainable in (((0,), False), ((0.7, 1.0), False), ((0.7, 0.7), True)):
            session = gateway.begin()
            for temperature in temperatures:
                gateway.say(session, f"{temperature}?", temperature=temperature)
            assert gateway.post(f"{session}/complete")["trainable"] is trainable
        session = gateway.begin(sampling_params={"temperature": 0.0, "max_tokens": 7})
        gateway.say(session, "a")
        assert gateway.post(f"{session}/complete", trainable=True)["trainable"]
        assert engine.requests[-1].sampling.max_tokens == 7


def test_a_refused_episode_leaves_the_session_open(gateway, pool, monkeypatch):
    session = gateway.begin(index=0)
    assert gateway.ask(f"{session}/complete", {})[0] == 409  # there is no call

    def refuse(trajectory, **named):
        raise UsageError("the pool has another episode of this place")

    gateway.say(session, "Which way?")
    monkeypatch.setattr(pool, "add", refuse)
    status, answer = gateway.ask(f"{session}/complete", {})
    assert (status, answer["error"]) == (400, "the pool has another episode of this place")
    monkeypatch.undo()
    assert gateway.ask(f"{session}/complete", {"rewrd": 1})[0] == 400
    assert gateway.post(f"{session}/complete")["episode"] == pool.episodes(session.rpartition("/")[2])[0][0]


def test_a_session_is_one_episode(gateway):
    begun = gateway.post("/sessions", index=1)
    session = f"/sessions/{begun['session_id']}"
    again = gateway.post(f"{session}/env/reset")
    assert again["observation"] == begun["env"]["observation"]
    assert again["metadata"]["state_hash"] == begun["env"]["metadata"]["state_hash"]
    play(gateway, session, "up")
    assert gateway.ask(f"{session}/env/reset", {})[0] == 409
    assert gateway.ask(f"{session}/env/step", {})[0] == 422
    assert gateway.ask("/sessions", {"task": "no such task"})[0] == 422
    assert gateway.ask("/sessions", {"env_id": "other"})[0] == 400
    assert len(gateway.get("/sessions")) == 1
    assert len(gateway.gateway.env.sessions) == 1


# ---- the journal --------------------------------------------------------------------------------


def test_sessions_go_on_in_another_process_as_if_nothing_had_been(model, engine, pool, tmp_path):
    with talking(model, engine, env=SOKOBAN, pool=pool, journal=tmp_path) as gateway:
        session = gateway.begin(index=3, group="g", metadata={"k": 1})
        said = gateway.say(session, "Which way?")
        play(gateway, session, "up", "left")
        more = gateway.say(session, "Which way?", said, "And now?", stop=["near"])
        done = gateway.begin(index=3, group="g")
        gateway.say(done, "Which way?")
        answer = gateway.post(f"{done}/complete")
        before = gateway.get(f"{session}/traces")
        state = gateway.get(f"{session}/env/state")
    with talking(model, engine, env=SOKOBAN, pool=pool, journal=tmp_path) as gateway:
        assert [each["session_id"] for each in gateway.get("/sessions")] == [session.rpartition("/")[2]]
        assert gateway.get(f"{session}/traces") == before
        again = gateway.get(f"{session}/env/state")
        assert {key: again[key] for key in ("step_count", "state_hash")} == {
            key: state[key] for key in ("step_count", "state_hash")
        }
        gateway.say(session, "Which way?", said, "And now?", more, "On?")
        assert gateway.get(f"{session}/traces")[2]["parent_trace_id"] == before[1]["trace_id"]
        assert len({request.seed for request in engine.requests}) == 4
        play(gateway, session, "down")
        assert gateway.post("/sessions", index=3, group="g")["rollout"] == 2
        gateway.post(f"{session}/complete")
        assert gateway.post(f"{done}/complete") == answer
    one, two = (episode for episode, _ in stored(pool))
    assert one.rollout == 0
    assert two.rollout == 1
    assert [step.action for step in one.steps] == ["up\nleft", "", "down"]


def test_half_a_line_is_cut_off_and_another_state_ends_a_session(model, engine, tmp_path):
    with talking(model, engine, env=SOKOBAN, journal=tmp_path) as gateway:
        whole, changed = gateway.begin(index=2), gateway.begin(index=2)
        for session in (whole, changed):
            gateway.say(session, "Which way?")
            play(gateway, session, "up")
    path = tmp_path / f"{whole.rpartition('/')[2]}.jsonl"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b'{"kind":"call","as')
    other = tmp_path / f"{changed.rpartition('/')[2]}.jsonl"
    lines = other.read_text().splitlines()
    lines[-1] = json.dumps(json.loads(lines[-1]) | {"state_hash": "0" * 32})
    other.write_text("\n".join(lines) + "\n")
    with talking(model, engine, env=SOKOBAN, journal=tmp_path) as gateway:
        assert gateway.get(whole)["step_count"] == 1
        assert path.stat().st_size == size
        for _ in range(2):
            status, answer = gateway.ask(changed, method="GET")
            assert (status, "came to another state" in answer["error"]) == (410, True)
        assert len(gateway.gateway.env.sessions) == 1
    (tmp_path / "torn.jsonl").write_bytes(b'{"kind":"session"}\n{"kind":"ca')
    (tmp_path / "odd.jsonl").write_bytes(b"[]\nnot JSON\n")
    with talking(model, engine, journal=tmp_path) as gateway:
        for damaged in ("torn", "odd"):
            assert gateway.ask(f"/sessions/{damaged}", method="GET")[0] == 400
        assert gateway.begin() != whole
        assert "start the gateway so" in gateway.ask(whole, method="GET")[1]["error"]


@pytest.mark.parametrize("changes", [{"parent": 5}, {"parent": -1}, {"number": 2}])
def test_a_journal_without_the_call_that_another_continues_is_damaged(model, engine, tmp_path, changes):
    with talking(model, engine, journal=tmp_path) as gateway:
        session = gateway.begin()
        chat = ["Which way?"]
        for _ in range(2):
            chat += [gateway.say(session, *chat), "And now?"]
    (path,) = tmp_path.glob("*.jsonl")
    lines = path.read_text().splitlines()
    lines[-1] = json.dumps(json.loads(lines[-1]) | changes)
    path.write_text("\n".join(lines) + "\n")
    with talking(model, engine, journal=tmp_path) as gateway:
        status, answer = gateway.ask(session, method="GET")
    assert (status, f"{path} is damaged" in answer["error"]) == (400, True)


def test_idle_sessions_are_closed_and_come_back(model, engine, tmp_path):
    now = [0.0]
    parts = {"env": SOKOBAN, "journal": tmp_path, "clock": lambda: now[0]}
    with talking(model, engine, limits={"idle": 10}, **parts) as gateway:
        session = gateway.begin(index=2)
        gateway.say(session, "Which way?")
        play(gateway, session, "up")
        now[0] = 11.0
        gateway.gateway.expire()
        assert gateway.get("/sessions") == []
        assert gateway.get(f"{session}/env/state")["step_count"] == 1


TOKEN = "sesame-0123456789"


def serve(model, folder, found):
    """Serve until killed; send the address."""
    with (
        DataPool(folder / "pool", group_size=1) as pool,
        talking(
            model, SayingEngine(model), env=SOKOBAN, journal=folder / "journal", token=TOKEN, pool=pool
        ) as gateway,
    ):
        found.send(gateway.url)
        threading.Event().wait()


@contextmanager
def killed_in_the_end(model, folder):
    """Run a gateway in a process of its own; yield it, and what kills it earlier."""
    fork = multiprocessing.get_context("fork")
    found, sent = fork.Pipe(duplex=False)
    process = fork.Process(target=serve, args=(model, folder, sent))
    process.start()
    try:
        assert found.poll(60)
        yield Talking(found.recv(), headers={"x-api-key": TOKEN}), process.kill
    finally:
        process.kill()
        process.join()


def test_what_was_acknowledged_survives_a_kill_and_no_token_is_written(model, tmp_path, capfd):
    known, session, sent = [], None, ["Which way?"]
    for _ in range(3):
        with killed_in_the_end(model, tmp_path) as (gateway, _):
            session = session or gateway.begin(index=1)
            assert gateway.get(f"{session}/traces") == known
            assert gateway.get(session)["step_count"] == len(known)
            for turn in range(2):
                said = gateway.say(session, *sent)
                play(gateway, session, "up")
                sent += [said, f"And now, {turn}?"]
            known = gateway.get(f"{session}/traces")
    assert len(known) == 6
    (path,) = tmp_path.rglob("*.jsonl")
    assert path.stat().st_mode & 0o777 == 0o600
    assert "sesame" not in path.read_text() + "".join(capfd.readouterr()) + json.dumps(known)


class Player:
    """A client that goes on from what was acknowledged to it, over deaths of the gateway."""

    TURNS = 3

    def __init__(self):
        self.session, self.said, self.steps, self.ended = None, [], 0, []

    def check(self, gateway):
        """Compare what there is with what was acknowledged; the request that broke off may be in it."""
        if self.session is None or self.steps == self.TURNS:  # complete perhaps
            return
        said = [call["response_message"]["content"] for call in gateway.get(f"{self.session}/traces")]
        steps = gateway.get(self.session)["step_count"]
        assert said[: len(self.said)] == self.said
        assert len(said) - len(self.said) + steps - self.steps in (0, 1)
        self.said, self.steps = said, steps

    def play(self, gateway):
        """Play until the connection breaks."""
        while True:
            self.session = self.session or gateway.begin(index=1)
            while self.steps < self.TURNS:
                if len(self.said) == self.steps:
                    self.said.append(gateway.say(self.session, f"Turn {self.steps}: which way?")["content"])
                gateway.post(f"{self.session}/env/step", action="up")
                self.steps += 1
            self.ended.append(gateway.post(f"{self.session}/complete")["episode"])
            self.session, self.said, self.steps = None, [], 0


@pytest.mark.slow
def test_thirty_deaths_lose_nothing_that_was_acknowledged(model, tmp_path):
    player, draws, cut = Player(), random.Random(0), 0
    for _ in range(30):
        with killed_in_the_end(model, tmp_path) as (gateway, kill):
            player.check(gateway)
            threading.Timer(draws.uniform(0.0, 0.2), kill).start()
            with pytest.raises((OSError, http.client.HTTPException)):
                player.play(gateway)
        cut += player.session is not None
    assert cut, "some kills are within a session"
    assert player.ended, "and some sessions end"
    with DataPool(tmp_path / "pool") as pool:
        kept = {id: each for group in pool.groups() for id, each in pool.episodes(group.name)}
    assert all(len(episode.steps) == Player.TURNS for episode in kept.values())
    assert len(set(player.ended)) == len(player.ended)
    # the last session may be in the pool without an answer
    assert set(player.ended) <= set(kept)
    assert len(kept) <= len(player.ended) + 1
