"""A row of verl-agent's tables: which game it is of."""

import json

import pytest

from agentgym.evaluation.imports.verl_agent import _Row


@pytest.mark.parametrize(
    ("info", "game"),
    [
        (
            json.dumps({"extra.gamefile": "train/pick/trial_1/game.tw-pddl", "won": False}),
            "train/pick/trial_1/game.tw-pddl",
        ),
        (json.dumps({"extra.gamefile": None}), ""),
        (json.dumps({"won": True}), ""),
        ("[1]", ""),
        ('{"extra.gamefile": "train/pick/tri', ""),
        (None, ""),
    ],
)
def test_the_game_stands_in_the_row_s_info(info, game):
    assert _Row("uid", info_json=info).game == game
