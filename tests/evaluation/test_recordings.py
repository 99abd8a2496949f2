"""Suites as TOML: what is written is what is read."""

import dataclasses
from pathlib import Path

from agentgym.agents.metadata import Model
from agentgym.evaluation.log.recorded_answers import ANSWERS_FILE, read_answers
from agentgym.evaluation.log.recordings import SCALE, Recording
from agentgym.evaluation.suites.suite import AgentCard, Suite, SuiteAgent, SuiteEnv, load_suite
from agentgym.evaluation.suites.suite_text import suite_text
from agentgym.evaluation.verify.verification import verify_run
from agentgym.serving.play_session import PlaySession, SharedEnv
from tests.evaluation.asking import REFERENCE, WeighEnv

HARD = 'a"b\\c\nd\te\x7f\u2028\U0001f600 é'


def test_a_written_suite_is_read_as_it_was(tmp_path: Path) -> None:
    kwargs = {
        "text": HARD,
        "list": [1, 2.5, -1e-7, 1e22, [True, False]],
        "table": {"a b": {"": HARD}},
        "empty": [],
        "none": {},
        HARD: 0,
    }
    envs = (
        SuiteEnv(
            "toys/A-v0",
            "A",
            "train",
            tasks=3,
            measures=("spl",),
            kwargs=kwargs,
            bounds=(-1.5, 2.0),
            by_type=True,
        ),
        SuiteEnv("toys/A-v0", HARD.replace("\n", ""), "test", tasks=("x-2", HARD), metric="score"),
    )
    model = SuiteAgent(
        "m",
        "model",
        sampling={"temperature": 0.4},
        parser="bare",
        model=Model(base_model="tiny", training_seed=3),
        card=AgentCard(contact=HARD),
    )
    agents = (*SCALE, SuiteAgent("script", "scripted", options={"path": HARD}), model)
    suite = Suite("some.name", "1", seed=7, attempts=2, env=envs, agent=agents)
    path = tmp_path / "suite.toml"
    path.write_text(suite_text(suite), encoding="utf-8", newline="")
    read = load_suite(path)
    assert read == suite
    assert read.sha256 == suite.sha256
    assert dataclasses.replace(suite, seed=8).sha256 != read.sha256


def test_a_recorded_episode_is_verified_by_its_answers(tmp_path: Path) -> None:
    weigh = SharedEnv(SuiteEnv(REFERENCE, "Weigh", "test", 1, kwargs={"standing": "attested"}), game())
    recording = Recording(tmp_path, "weighed", SuiteAgent("human", "human"), seed=7)
    ended: list[bool] = []
    session = PlaySession(seed=0, recording=recording, ended=lambda _, recorded: ended.append(recorded))
    task = weigh.prototype.tasks[2].id
    for again in (False, True):
        assert recording.holds(weigh.env, task) is again
        session.start(weigh, task)
        for word in session.info["admissible_actions"][:3]:
            session.act(word)
    assert ended == [True, False]
    assert not recording.holds(weigh.env, weigh.prototype.tasks[1].id)
    answers = read_answers(recording.run_folder / ANSWERS_FILE)
    assert len(answers) == 3
    verdict = verify_run(recording.run_folder, allow=(REFERENCE,))
    assert (verdict.problems, verdict.episodes) == ((), 1)


def game() -> WeighEnv:
    return WeighEnv(standing="attested")
