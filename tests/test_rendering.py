"""What environments show: text, pictures of one size, and the table of docs/gymnasium.md that says which."""

import re
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from agentgym.env import AgentEnv
from agentgym.errors import MissingPackageError
from agentgym.io.optional import install_command, load_reference
from agentgym.registration import ARRAY_ENVIRONMENTS, ENVIRONMENTS
from tests.corridor import CorridorEnv, CorridorVectorEnv
from tests.policy_requests import request_of

PAGE = (Path(__file__).parents[1] / "docs" / "gymnasium.md").read_text(encoding="utf-8")
ROW = r" \| (.*?) \| .*? \| `(\d+) x (\d+)`.* \|$"
NAMED = re.findall(r"^\| `(agentgym/\w+-v0)`" + ROW, PAGE, flags=re.MULTILINE)
(OTHERS,) = re.findall(r"^\| any other" + ROW, PAGE, flags=re.MULTILINE)
REGISTERED = ENVIRONMENTS | ARRAY_ENVIRONMENTS
TABLE = dict.fromkeys(REGISTERED, OTHERS) | {name: tuple(row) for name, *row in NAMED}
"""Render modes, width and height by environment."""
STEPS = 2


def played(env_id, mode):
    """Yield an environment after a reset and each of the oracle's first steps, with what it observed."""
    env = gymnasium.make(env_id, render_mode=mode)
    observation, info = env.reset(seed=3)
    yield env, observation
    game = env.unwrapped
    player = game.oracle() if isinstance(game, AgentEnv) else None
    for _ in range(STEPS):
        action = 0
        if player is not None:
            asked = request_of(game, info, observation=observation, extra=info)
            action = player.act([asked])[0].action
        observation, _, terminated, truncated, info = env.step(action)
        yield env, observation
        if terminated or truncated:
            return


def test_the_table_has_every_environment_and_its_modes():
    assert TABLE.keys() == REGISTERED.keys()
    for env_id, environment in REGISTERED.items():
        declared = load_reference(environment.single).metadata["render_modes"]
        assert TABLE[env_id][0] == ", ".join(f"`{mode}`" for mode in declared), env_id


@pytest.mark.parametrize("env_id", ENVIRONMENTS)
def test_text_is_what_a_player_sees(env_id):
    for env, observation in played(env_id, "ansi"):
        seen = observation if isinstance(observation, str) else observation["text"]
        shown = env.render()
        for part in re.split(r" \[SEP\] |\n", seen):
            assert part in shown
        assert "\\x" not in shown


@pytest.mark.parametrize(("env_id", "width", "height"), [(env_id, *row[1:]) for env_id, row in TABLE.items()])
def test_pictures_have_the_size_of_the_table(env_id, width, height):
    pictures = [env.render() for env, _ in played(env_id, "rgb_array")]
    assert {picture.shape for picture in pictures} == {(int(height), int(width), 3)}
    assert {picture.dtype for picture in pictures} == {np.dtype(np.uint8)}
    assert all(len(np.unique(picture)) > 1 for picture in pictures)
    assert len({picture.tobytes() for picture in pictures}) > 1, "every step looks the same"


def test_the_goal_stays_in_view():
    turns = ((env.render(), observation) for env, observation in played("agentgym/ALFWorld-v0", "ansi"))
    beginning, observation = next(turns)
    assert beginning == observation
    (goal,) = (line for line in beginning.split("\n") if line.startswith("Your task is to: "))
    assert [shown for shown, _ in turns if not shown.startswith(f"{goal}\n\nYou ")] == []


@pytest.mark.parametrize("name", ["HotpotQA", "Sokoban", "SokobanArray"])
def test_vector_forms_render_a_frame_for_each_slot(name):
    envs = gymnasium.make_vec(f"agentgym/{name}-v0", num_envs=2, render_mode="rgb_array")
    envs.reset(seed=[3, 4])
    env = gymnasium.make(f"agentgym/{name}-v0", render_mode="rgb_array")
    alone = []
    for seed in (3, 4):
        env.reset(seed=seed)
        alone.append(env.render())
    frames = envs.render()
    assert isinstance(frames, tuple)
    assert [frame.tobytes() for frame in frames] == [frame.tobytes() for frame in alone]


def test_a_long_text_keeps_its_beginning_and_its_end():
    from agentgym.core.text_image import FRAME_LINES, cut, text_frame

    lines = [str(number) for number in range(100)]
    kept = cut(lines, FRAME_LINES)
    assert (kept[:6], kept[6], kept[-1], len(kept)) == (
        ["0", "1", "2", "3", "4", "..."],
        "66",
        "99",
        FRAME_LINES,
    )
    assert text_frame("\n".join(lines)).shape == text_frame("").shape
    assert np.array_equal(text_frame("\n".join(lines)), text_frame("\n".join(kept)))
    assert (text_frame("word " * 400)[:, -4:] == 255).all(), "letters at the edge: a line is not broken"


def test_the_terminal_is_written_at_reset_and_step_and_cannot_be_steered(capsys):
    class Steered(CorridorEnv):
        def _observe(self):
            return f"{super()._observe()}\x1b[2J"

    env = Steered(render_mode="human")
    env.reset(options={"task": "corridor2"})
    env.step("right")
    assert env.render() is None
    assert capsys.readouterr().out == "cell 0 of 2\\x1b[2J\n\ncell 1 of 2\\x1b[2J\n\n"


@pytest.mark.parametrize(("module", "package"), [("PIL", "pillow"), ("matplotlib", "matplotlib")])
def test_what_is_missing_is_named_in_a_line(monkeypatch, module, package):
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    env = CorridorEnv(render_mode="rgb_array")
    env.reset(seed=0)
    with pytest.raises(MissingPackageError) as refused:
        env.render()
    brings = ", which brings pillow" if module == "PIL" else ""
    needs = f"render_mode='rgb_array' needs {package}: {install_command('render')}{brings}"
    assert str(refused.value) == needs
    envs = CorridorVectorEnv(2, render_mode="rgb_array")
    envs.reset(seed=0)
    with pytest.raises(MissingPackageError, match=package):
        envs.render()
