"""Few-shot: whose demonstrations, of which tasks, in what form; and what an agent's metadata say."""

import pytest

from agentgym.agents.language.making import prompting_facts, react_facts, reflexion_facts
from agentgym.agents.language.settings import PROMPTING, REACT
from agentgym.agents.language.shots import make_shots
from agentgym.core.hashing import sha256_json
from agentgym.core.types import Completion, Request
from agentgym.errors import UsageError
from agentgym.evaluation.suites.agent_metadata import complete
from agentgym.evaluation.suites.suite import PlayedEnv, SuiteAgent
from agentgym.prompts import load_template
from agentgym.registration import make_vec, open_vector
from agentgym.rollout.worker import RolloutWorker
from tests.agents.chat_models import FakeChatModel, agent, think
from tests.corridor import CorridorVectorEnv

OPTIONS = {"endpoint": "http://127.0.0.1:9/v1", "model": "fake"}
SOKOBAN = "agentgym/Sokoban-v0"


def asked(envs, said, scaffold, **options):
    """Play a task; return what was asked."""
    model = FakeChatModel(lambda sent: said)
    policy = agent(envs, model, scaffold, **options)
    worker = RolloutWorker(envs, policy, env_id="agentgym/Test-v0")
    worker.collect(envs.tasks.ids[:1], group_size=1, seed=0)
    return model.requests


def replayed(env_id, answers, read, **options):
    """Play what demonstrations say; return whether each is won."""
    envs = open_vector(env_id, 1, split="train", options=options)
    won = []
    for task_id, texts in answers:
        envs.reset_at([0], [task_id], [0])
        for text in texts:
            _, _, _, _, infos = envs.step_at([0], [read(text).action])
        won.append(bool(infos["won"][0]))
    return won


@pytest.mark.parametrize("scaffold", [PROMPTING, REACT])
@pytest.mark.parametrize("env_id", [SOKOBAN, "agentgym/ALFWorld-v0", "agentgym/WebShop-v0"])
def test_demonstrations_are_won_train_tasks_in_the_agents_form(env_id, scaffold):
    envs = open_vector(env_id, 1, split="train")
    policy = agent(envs, FakeChatModel(str), scaffold.name, shots=2, seed=3)
    shots = policy._prompts.demonstrations
    assert len(shots) == 3
    assert {shot.task_id for shot in shots} <= set(envs.tasks.ids)
    template = policy._prompts.template
    for shot in shots:
        roles = [message.role for message in shot.messages]
        assert roles == ["user", "assistant"] * (len(roles) // 2)
        beginnings = [m.text.startswith(template.static) for m in shot.messages if m.role == "user"]
        assert beginnings == [True] + [scaffold is PROMPTING] * (len(roles) // 2 - 1)
    answers = [(shot.task_id, [m.text for m in shot.messages if m.role == "assistant"]) for shot in shots]
    assert all(replayed(env_id, answers, template.answer.parse))


def test_demonstrations_precede_the_task_in_every_chat():
    envs = open_vector(SOKOBAN, 1, split="test", options={"max_steps": 3})
    requests = asked(envs, think("up"), "react", shots=2, system="Play.")
    for sent in requests:
        roles = [message.role for message in sent.messages]
        assert roles[0] == "system"
        assert roles[1:] == ["user", "assistant"] * (len(roles) // 2 - 1) + ["user"]
        starts = [message.text.startswith("You are playing Sokoban") for message in sent.messages]
        assert sum(starts) == 3


def test_demonstrations_follow_from_the_seed():
    def tasks(seed):
        policy = agent(open_vector(SOKOBAN, 1), FakeChatModel(str), "react", shots=2, seed=seed)
        return policy._prompts.demonstrations

    assert tasks(1) == tasks(1)
    assert tasks(1) != tasks(2)


def test_a_task_is_not_shown_to_whoever_plays_it():
    envs = open_vector(SOKOBAN, 1, split="train")
    policy = agent(envs, FakeChatModel(str), "react", shots=2)
    prompts = policy._prompts
    shown = prompts.demonstrations

    def chat(task_id):
        request = Request(0, task_id, "", 0, "board", ("up",), "0", 7)
        return prompts.chat(request, prompts.turn(request), 0)[:-1]

    assert chat("another") == (*shown[0].messages, *shown[1].messages)
    assert chat(shown[0].task_id) == (*shown[1].messages, *shown[2].messages)


def test_the_oracle_demonstrates_where_there_are_no_rules():
    envs = CorridorVectorEnv(1, autoreset_mode="Disabled", split="test")
    policy = agent(envs, FakeChatModel(str), "react", shots=2)
    shots = make_shots(envs, policy._prompts, 2, 0)
    assert (shots.demonstrator, shots.privileged) == ("oracle", True)
    assert shots.demonstrations == policy._prompts.demonstrations
    assert make_shots(open_vector(SOKOBAN, 1), policy._prompts, 1, 0).privileged is False


def test_demonstrations_have_the_environments_options():
    envs = open_vector(SOKOBAN, 1, split="test", options={"dim_room": (7, 7), "num_boxes": 2})
    policy = agent(envs, FakeChatModel(str), "react", shots=1)
    board = policy._prompts.demonstrations[0].messages[0].text.rpartition("turns:\n")[2].split("\n")[:7]
    assert all(len(row) == 7 for row in board)
    assert "".join(board).count("$") == 2


def test_demonstrations_are_made_for_any_form_of_the_environment():
    plain = agent(open_vector(SOKOBAN, 1), FakeChatModel(str), shots=1)._prompts.demonstrations
    vector = make_vec(SOKOBAN, 3)
    assert agent(vector, FakeChatModel(str), shots=1)._prompts.demonstrations == plain


def test_native_calls_and_pictures_are_demonstrated_as_they_are_asked():
    envs = open_vector("agentgym/VisualSokoban-v0", 1)
    options = {"answer": "tool-calls", "native_tools": True}
    (shot, _) = agent(envs, FakeChatModel(str), shots=1, **options)._prompts.demonstrations
    called = [message for message in shot.messages if message.role == "assistant"]
    assert all(message.tool_calls for message in called)
    assert shot.messages[0].images


def test_too_few_demonstrations_are_an_error(monkeypatch):
    class Falls:
        def act(self, requests):
            return [Completion("fall") for _ in requests]

    monkeypatch.setattr("tests.corridor.CorridorEnv.oracle", lambda self: Falls())
    envs = CorridorVectorEnv(1, autoreset_mode="Disabled")
    with pytest.raises(UsageError, match="shots = 2, but the agent 'oracle' did only 0 of 7 train"):
        agent(envs, FakeChatModel(str), shots=2)


# ---- metadata -----------------------------------------------------------------------------------


def test_metadata_pin_every_word():
    played = [(SOKOBAN, {"split": "test"})]
    facts = react_facts(played, **OPTIONS)
    assert facts.model.base_model == "fake"
    assert facts.parser == "think-action"
    assert facts.sampling["wordings"] == [load_template("sokoban", "think-action").id]
    others = [
        prompting_facts(played, **OPTIONS),
        reflexion_facts(played, **OPTIONS),
        react_facts([("agentgym/WebShop-v0", {})], **OPTIONS),
        react_facts(played, **OPTIONS, system="Play."),
        react_facts(played, **OPTIONS, answer="json-call"),
        react_facts(played, **OPTIONS, answer="tool-calls"),
        react_facts(played, **OPTIONS, answer="tool-calls", native_tools=True),
        react_facts(played, **OPTIONS, shots=1),
        react_facts(played, **OPTIONS, shots=1, seed=1),
    ]
    assert len({facts.prompt_sha256, *(each.prompt_sha256 for each in others)}) == 10
    assert react_facts(played, **OPTIONS, temperature=0.5).prompt_sha256 == facts.prompt_sha256


def test_metadata_say_whose_demonstrations_there_are():
    played = [(SOKOBAN, {"split": "test"}), (SOKOBAN, {"split": "valid"})]
    facts = react_facts(played, **OPTIONS, shots=2, seed=5)
    envs = open_vector(SOKOBAN, 1, split="test")
    prompts = agent(envs, FakeChatModel(str), "react", shots=2, seed=5)._prompts
    shots = make_shots(envs, prompts, 2, 5)
    assert facts.sampling["shots"] == {
        "count": 2,
        "sha256": sha256_json([shots.sha256]),
        "demonstrators": ["rules"],
        "privileged": False,
    }


def test_environments_without_data_are_not_demonstrated(monkeypatch, tmp_path):
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path))
    official = ("agentgym/ALFWorld-v0", {"dataset": "official"})
    facts = react_facts([official], **OPTIONS, shots=1)
    assert facts.sampling["shots"]["demonstrators"] == []


def test_a_suites_agent_is_completed_with_what_it_plays():
    env = PlayedEnv(SOKOBAN, "Sokoban", "test", 1)
    said = SuiteAgent("react", "react", OPTIONS)
    true = complete(said, [env])
    assert true.prompt_sha256 == react_facts([(SOKOBAN, env.options)], **OPTIONS).prompt_sha256
    assert true.sampling["endpoint"] == "fake at http://127.0.0.1:9/v1"
    assert complete(true, [env]) == true


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tempreature": 1}, r"agent 'react': unknown key 'tempreature' \(did you mean 'temperature'\?\)"),
        ({"temperature": "hot"}, "agent 'react': temperature: expected a number, got 'hot'"),
        ({"memory": 3}, "agent 'react': unknown key 'memory'"),
        ({"request": {"timout": 1}}, r"endpoint: unknown key 'timout' \(did you mean 'timeout'\?\)"),
        ({"request": {"url": "x"}}, "request holds 'url', which the agent's option 'endpoint' says"),
        ({"endpoint": "http://me:secret@host/v1"}, "endpoint: url holds credentials"),
    ],
)
def test_options_are_read_strictly(options, message):
    with pytest.raises(UsageError, match=message):
        react_facts(**{**OPTIONS, **options})
