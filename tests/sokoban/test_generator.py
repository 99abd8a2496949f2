import json
import subprocess
import sys

import numpy as np
import pytest

from agentgym.envs.sokoban.builtin.generator import MIN_PULLS, Config, generate
from agentgym.envs.sokoban.level import Level
from agentgym.envs.sokoban.solver import FloorPlan, solve
from agentgym.errors import UsageError

CONFIGS = [Config(6, 6, 1), Config(6, 6, 2), Config(7, 7, 2), Config(5, 9, 2), Config(10, 10, 3)]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
def test_levels_are_valid_solvable_and_not_trivial(config):
    levels = [level for c in range(30) if (level := generate(config, c))]
    assert len(levels) >= 8
    assert len({level.board for level in levels}) == len(levels)
    for level in levels:
        assert Level.parse(level.text.split("\n")) == level
        assert (level.height, level.width, level.boxes) == (config.height, config.width, config.boxes)
        assert level.on_target == 0
        moves = solve(level.board, weight=1.0 if config.boxes < 3 else 2.0)
        assert len(moves) >= MIN_PULLS
        assert FloorPlan(level.board).walls.bit_count() >= 2 * (config.height + config.width) - 4


def test_a_candidate_depends_on_its_number_alone():
    program = (
        "import json, random, numpy; from agentgym.envs.sokoban.builtin.generator import *;"
        "random.seed(1); numpy.random.seed(2);"
        "print(json.dumps([getattr(generate(Config(6, 6, 2), c), 'text', None) for c in range(20, 0, -1)]))"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    here = [getattr(generate(Config(6, 6, 2), c), "text", None) for c in range(1, 21)]
    assert json.loads(output) == here[::-1]


def test_the_first_level_is_what_version_1_makes():
    assert generate(Config(6, 6, 1), 0) is None
    assert generate(Config(6, 6, 1), 1).text == "######\n#   @#\n#. $ #\n## # #\n##   #\n######"


def test_global_generators_are_left_alone():
    np.random.seed(5)  # noqa: NPY002
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    generate(Config(6, 6, 1), 3)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


@pytest.mark.parametrize("numbers", [(4, 6, 1), (6, 33, 1), (6, 6, 0), (6, 6, 5), (12, 12, 9)])
def test_impossible_configurations_are_refused(numbers):
    with pytest.raises(UsageError, match=r"dim_room|num_boxes"):
        Config(*numbers)
