"""Gymnasium's RecordVideo on every suite; it needs moviepy."""

import gymnasium
import imageio_ffmpeg
import pytest
from gymnasium.wrappers import RecordVideo

from tests.test_rendering import TABLE

SUITES = ["Sokoban", "EZPoints", "ALFWorld", "WebShop", "HotpotQA", "PaperSearch", "Sotopia"]
SIZES = {name: (int(width), int(height)) for name, (_, width, height) in TABLE.items()}


@pytest.mark.parametrize("name", SUITES)
def test_an_episode_becomes_a_video(name, tmp_path):
    env_id = f"agentgym/{name}-v0"
    env = RecordVideo(
        gymnasium.make(env_id, render_mode="rgb_array", max_steps=2),
        str(tmp_path / "videos"),
        episode_trigger=lambda n: True,
    )
    env.reset(seed=3)
    over = frames = 0
    while not over:
        over = any(env.step("no such action")[2:4])
        frames += 1
    env.close()
    (video,) = (tmp_path / "videos").iterdir()
    about = next(imageio_ffmpeg.read_frames(video))
    assert about["size"] == SIZES[env_id]
    assert (about["fps"], about["duration"]) == (4.0, (frames + 1) / 4)
