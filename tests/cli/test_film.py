"""``agentgym play --gif``: an episode as an animated picture."""

import sys

import pytest
from PIL import Image

from agentgym.cli.play import END_MILLISECONDS, FRAME_MILLISECONDS
from agentgym.io.optional import install_command
from tests.cli.conftest import ENV

SOKOBAN = ("play", "agentgym/Sokoban-v0", "--split", "test", "--seed", 7)


def frames_of(path):
    """Return the frames of a picture as RGB, and their milliseconds."""
    with Image.open(path) as picture:
        frames, times = [], []
        for number in range(picture.n_frames):
            picture.seek(number)
            frames.append(picture.convert("RGB"))
            times.append(picture.info["duration"])
        return frames, times


def test_an_agents_episode(cli, tmp_path):
    code, _, err = cli(*SOKOBAN, "--agent", "oracle", "--gif", tmp_path / "oracle.gif")
    assert (code, err) == (0, "")
    frames, times = frames_of(tmp_path / "oracle.gif")
    assert times == [FRAME_MILLISECONDS] * 18 + [END_MILLISECONDS]
    assert frames[0].size == (384, 418)  # 6 cells of 16 pixels, enlarged 4 times; below it the caption


def test_pictures_of_text_and_of_images_are_the_same_tiles(cli, tmp_path):
    for name in ("Sokoban", "VisualSokoban"):
        words = (f"agentgym/{name}-v0", "--split", "test", "--seed", 7, "--agent", "oracle")
        assert cli("play", *words, "--gif", tmp_path / f"{name}.gif")[0] == 0
    one, two = (frames_of(tmp_path / f"{name}.gif")[0] for name in ("Sokoban", "VisualSokoban"))
    assert [frame.tobytes() for frame in one] == [frame.tobytes() for frame in two]


def test_what_a_person_played_without_what_was_taken_back(cli, tmp_path):
    cli(*SOKOBAN, "--gif", tmp_path / "mine.gif", stdin="up\n:undo\nleft\nleft\n")
    assert len(frames_of(tmp_path / "mine.gif")[0]) == 3


def test_texts_are_written(cli, tmp_path):
    cli("play", ENV, "--task", "corridor3", "--gif", tmp_path / "text.gif", stdin="right\n:force jump\n")
    frames, _ = frames_of(tmp_path / "text.gif")
    assert len(frames) == 3
    dark = [sum(frame.convert("L").histogram()[:128]) for frame in frames]
    assert min(dark) > 100  # letters
    right = frames[0].crop((frames[0].width - 4, 0, frames[0].width, frames[0].height))
    assert right.convert("L").getextrema()[0] > 240  # none cut off


@pytest.mark.parametrize(("missing", "package"), [("PIL", "pillow"), ("matplotlib", "matplotlib")])
def test_missing_packages_are_named_before_anything_is_played(
    refused, monkeypatch, tmp_path, missing, package
):
    for name in [name for name in sys.modules if name.partition(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    complaint = refused(*SOKOBAN, "--gif", tmp_path / "x.gif")
    brings = ", which brings pillow" if missing == "PIL" else ""
    assert complaint == f"agentgym: --gif needs {package}: {install_command('plot')}{brings}\n"


def test_no_picture_is_overwritten(refused, tmp_path):
    (tmp_path / "x.gif").write_text("precious")
    assert "--gif would overwrite" in refused(*SOKOBAN, "--gif", tmp_path / "x.gif")
