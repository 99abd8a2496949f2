"""Pictures: what vision models are sent, and what transcripts keep of it."""

import hashlib
import io

import numpy as np
import pytest

from agentgym.agents.language.chats import describe, encode_png, picture_of
from agentgym.endpoint.chat import ChatToolCall
from agentgym.evaluation.log.redaction import Redactor
from agentgym.evaluation.log.transcripts import transcript_of
from agentgym.registration import open_vector
from agentgym.rollout.worker import RolloutWorker
from tests.agents.chat_models import FakeChatModel, agent, reply, think

PICTURES = {
    "agentgym/VisualSokoban-v0": ({}, (288, 288)),
    "agentgym/EZPoints-v0": ({"observation": "image"}, (448, 392)),
}


def decoded(png):
    image = pytest.importorskip("PIL.Image")
    return np.asarray(image.open(io.BytesIO(png)))


def played(env_id, said=lambda sent: think("none"), **options):
    kwargs, _ = PICTURES[env_id]
    envs = open_vector(env_id, 1, options={**kwargs, "max_steps": 3})
    model = FakeChatModel(said)
    worker = RolloutWorker(envs, agent(envs, model, **options), env_id=env_id)
    (group,) = worker.collect(envs.tasks.ids[:1], group_size=1, seed=0)
    return model.requests, group.trajectories[0]


def test_png_holds_the_pixels_for_any_reader():
    pixels = np.random.default_rng(0).integers(0, 256, (5, 9, 3), np.uint8)
    assert np.array_equal(decoded(encode_png(pixels)), pixels)
    assert encode_png(pixels) == encode_png(pixels.copy())


@pytest.mark.parametrize(("side", "enlarged"), [(1, 224), (84, 252), (224, 224), (500, 500)])
def test_small_pictures_are_enlarged_by_a_whole_factor(side, enlarged):
    pixels = np.arange(side * side * 3, dtype=np.uint32).astype(np.uint8).reshape(side, side, 3)
    large = decoded(picture_of({"text": "", "image": pixels}).png)
    assert large.shape == (enlarged, enlarged, 3)
    factor = enlarged // side
    assert np.array_equal(large[::factor, ::factor], pixels)


def test_text_has_no_picture():
    assert picture_of("a room") is None
    assert picture_of({"text": "a room"}) is None


@pytest.mark.parametrize("env_id", PICTURES)
@pytest.mark.parametrize("scaffold", ["prompting", "react"])
def test_pictures_go_beside_the_text_and_transcripts_name_them(env_id, scaffold):
    requests, trajectory = played(env_id, scaffold=scaffold)
    for sent, step in zip(requests, trajectory.steps, strict=True):
        assert step.observation["text"] in sent.messages[-1].text
        (image,) = sent.messages[-1].images
        width, height = PICTURES[env_id][1]
        assert decoded(image.png).shape == (height, width, 3)
        sha256 = hashlib.sha256(image.png).hexdigest()
        line = f"[image {width}x{height} sha256 {sha256}]"
        assert describe(image) == line
        assert step.completion.messages[-1].text == f"{sent.messages[-1].text}\n\n{line}"
    shown = sum(len(message.images) for message in requests[-1].messages)
    assert shown == (3 if scaffold == "react" else 1)
    record = transcript_of(trajectory, "label", 1, Redactor())
    assert record.messages(2) == trajectory.steps[2].completion.messages


def test_pictures_can_be_left_out():
    requests, trajectory = played("agentgym/VisualSokoban-v0", images=False)
    assert not any(message.images for sent in requests for message in sent.messages)
    assert "[image" not in trajectory.steps[-1].completion.messages[-1].text


def test_text_can_be_left_out():
    requests, trajectory = played("agentgym/EZPoints-v0", image_text=False)
    text = "\n".join(message.text for sent in requests for message in sent.messages)
    assert "What you see is in the picture of this message." in text
    assert all(step.observation["text"] not in text for step in trajectory.steps)


def test_a_picture_after_a_native_call_is_the_users():
    call = ChatToolCall("x", "move", '{"direction": "up"}')
    requests, _ = played(
        "agentgym/VisualSokoban-v0",
        lambda sent: reply("", tool_calls=(call,)),
        answer="tool-calls",
        native_tools=True,
    )
    final = requests[1].messages
    assert [message.role for message in final] == ["user", "assistant", "tool", "user"]
    assert [len(message.images) for message in final] == [1, 0, 0, 1]
