"""The link to the newest checkpoint leads to one of the run's own, or nowhere."""

import os
from pathlib import Path

import pytest

from agentgym.errors import UsageError
from agentgym.training.config import read_config
from agentgym.training.track.checkpoint import last_checkpoint, load_checkpoint


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "checkpoints" / "000020").mkdir(parents=True)
    (tmp_path / "checkpoints" / "best").mkdir()
    return tmp_path


def test_a_link_to_a_checkpoint_is_followed(folder):
    (folder / "checkpoints" / "last").symlink_to("000020")
    assert last_checkpoint(folder) == folder / "checkpoints" / "000020"


@pytest.mark.parametrize("target", ["/etc", "..", "best", "./000020", "../checkpoints/000020"])
def test_a_link_elsewhere_is_refused_in_a_line(folder, target):
    (folder / "checkpoints" / "last").symlink_to(target)
    with pytest.raises(UsageError, match=f"last leads to '{target}', not to a checkpoint beside it") as error:
        last_checkpoint(folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("target", ["000020", "../../elsewhere"])
def test_a_chain_of_links_is_refused_in_a_line(folder, target):
    (folder.parent / "elsewhere").mkdir(exist_ok=True)
    (folder / "checkpoints" / "000030").symlink_to(target)
    (folder / "checkpoints" / "last").symlink_to("000030")
    with pytest.raises(UsageError, match="last leads to '000030', not to a checkpoint beside it"):
        last_checkpoint(folder)


@pytest.mark.parametrize("kind", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_a_state_that_is_no_file_is_refused_in_a_line(folder, kind):
    kind(folder / "checkpoints" / "000020" / "state.pt")
    with pytest.raises(UsageError, match=r"state\.pt is not a regular file") as error:
        load_checkpoint(folder / "checkpoints" / "000020")
    assert "\n" not in str(error.value)


def test_a_folder_in_the_link_s_place_is_refused(folder):
    (folder / "checkpoints" / "last").mkdir()
    with pytest.raises(UsageError, match="last leads to 'no link'"):
        last_checkpoint(folder)


@pytest.mark.parametrize(
    "text", ["[" * 99_999, '{"seed": NaN}', '{"seed": 1, "seed": 2}', "\ufeff", '"\\ud800"']
)
def test_a_configuration_that_programs_read_differently_is_refused_in_a_line(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UsageError, match=r"config\.json") as error:
        read_config(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_a_configuration_that_is_no_file_is_refused(tmp_path, kind):
    kind(tmp_path / "config.json")
    with pytest.raises(UsageError, match=r"config\.json is not a regular file"):
        read_config(tmp_path)
