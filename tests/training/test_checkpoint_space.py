"""A checkpoint that does not fit names its path and what helps."""

import resource

import pytest
import torch

from agentgym import UsageError
from agentgym.training.track.checkpoint import save_checkpoint


def test_a_state_that_does_not_fit(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, before[1]))
    try:
        with pytest.raises(UsageError, match=r"cannot write .*free space, or raise the limit") as caught:
            save_checkpoint(
                tmp_path, "000001", {"w": torch.zeros(100_000)}, lambda path: path.mkdir(), keep=1
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert not (tmp_path / "checkpoints" / "000001").exists()
