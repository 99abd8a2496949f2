"""A trainer learns from the sessions of agents that it knows nothing of."""

import random

import pytest

from agentgym.history.run import read_metrics
from agentgym.inference.engines.standalone import open_engine
from agentgym.inference.models.language_model import save_model
from agentgym.rollout.datapool import DataPool
from agentgym.training.run import start
from tests.serving.gateway_stand_ins import make_model, talking
from tests.training.pooled_runs import model_bytes, settings

ENV = "agentgym/Sokoban-v0"
FREE = {"prompting__choice": "free", "prompting__answer": "plain", "prompting__max_tokens": 8}


def play(gateway, rng, index, group):
    """Play a session as an agent whose prompts, retries and actions are its own."""
    begun = gateway.post("/sessions", index=index, group=group)
    session, row = f"/sessions/{begun['session_id']}", begun["env"]
    chat = [row["observation"]["text"]]
    while not row["done"]:
        if rng.random() < 0.2:
            gateway.say(session, *chat, max_tokens=8)  # whose answer it never saw
        said = gateway.say(session, *chat, max_tokens=8)
        for _ in range(rng.randint(0, 2)):
            if not row["done"]:
                action = rng.choice([*row["metadata"]["admissible_actions"], "jump"])
                row = gateway.post(f"{session}/env/step", action=action)
        chat = [*chat, said, row["observation"]["text"]] if rng.random() < 0.8 else ["Anew: which way?"]
    gateway.post(f"{session}/complete")


@pytest.mark.parametrize("algorithm", ["grpo", "gigpo", "graphgpo", "steppo"])
def test_sessions_of_a_gateway_are_trained_on(tmp_path, algorithm):
    save_model(tmp_path / "model", make_model())
    model, engine = open_engine(str(tmp_path / "model"))
    options = {"max_optimal": 2, "max_steps": 4}
    with (
        DataPool(tmp_path / "pool", group_size=3) as pool,
        talking(model, engine, env=ENV, env_options=options, pool=pool) as gateway,
    ):
        rng = random.Random(0)
        for index in range(2):
            for _ in range(3):
                play(gateway, rng, index, f"group {index}")
        assert [(group.state, group.trainable) for group in pool.groups()] == [("complete", True)] * 2
    run = settings(
        algorithm,
        rollout__pool=str(tmp_path / "pool"),
        rollout__tasks=2,
        rollout__group_size=3,
        iterations=1,
        model=str(tmp_path / "model"),
        **FREE,
    )
    outcome = start(run, tmp_path / "run", logs=["jsonl"])
    assert outcome.end == "finished"
    (line,) = read_metrics(tmp_path / "run")
    assert line.logp_diff < 1e-4  # the learner computes what the gateway says was sampled
    assert line.grad_norm > 0
    assert line.episodes == 6
    assert model_bytes(tmp_path / "run") != (tmp_path / "model" / "model.safetensors").read_bytes()
