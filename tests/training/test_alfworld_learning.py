import json

import numpy as np
import pytest

from agentgym.training.models.models import load_model
from agentgym.training.policy.saved import read_agent
from benchmarks import alfworld_learning, alfworld_page
from benchmarks.alfworld_page import Results, difference, page, share


def games(*steps):
    """Return games of a family each, won in so many steps; 0 for lost."""
    return [
        {"type": f"t{place % 2}", "won": n > 0, "steps": n or 50, "spl": 4 / n if n else 0.0}
        for place, n in enumerate(steps)
    ]


@pytest.fixture
def results():
    rows = {
        "rules": {"seen": games(8, 16, 8, 0)},
        "clone-seed0": {"seen": games(16, 16, 0, 0)},
        "clone-seed1": {"seen": games(8, 16, 40, 0)},
        "gigpo-seed0": {"seen": games(8, 8, 8, 0)},
        "gigpo-seed1": {"seen": games(8, 8, 8, 8)},
    }
    return Results(rows, {"seen": "published valid_seen"}, {"clone-seed0": 61.4}, (0, 1))


def test_stages_are_averaged_over_seeds(results):
    clones = results.pooled("clone", "seen", "15")
    np.testing.assert_array_equal(clones, [[0, 0, 0, 0], [1, 0, 0, 0]])
    assert share(clones).value == 0.125
    assert results.pooled("rules", "seen", "30").tolist() == [[1, 1, 1, 0]]
    gap = difference(results.pooled("gigpo", "seen", "15"), clones)
    assert gap.value == pytest.approx(0.875 - 0.125)
    assert 0.5 <= gap.low < gap.value < gap.high <= 1.0


def test_the_page_shows_every_stage_and_where_papers_differ(results):
    text = page(results)
    assert "Constrained choice, demonstrations of a hand-written explorer" in text
    assert "| clone of the explorer, DAgger included | 12.5% [" in text
    assert "clone, then GiGPO minus the explorer (teacher) | +37.5 [" in text
    assert "| `clone-seed0` | 61 |" in text
    assert "| `clone-seed1` | 25.0% / 75.0% |" in text
    assert "Short of it: clone, then GiGPO, 87.5% of published valid_seen (least in `t1`, 75.0%)." in text
    for printed in ("48.0", "90.8", "95.42", "98.43"):
        assert f"| {printed} |" in text
    won = Results({"clone-seed0": {"seen": games(8, 8)}}, {"seen": "published valid_seen"}, {}, (0,))
    assert "Reached: clone of the explorer, DAgger included, 100.0% of published valid_seen." in page(won)
    assert text.index("not in one order") < text.index("GPT-4o")
    assert json.loads(results.to_json())["seeds"] == [0, 1]


def test_the_untrained_model_spells_the_games_words_in_single_tokens(tmp_path, monkeypatch):
    monkeypatch.setattr(alfworld_learning, "FOLDER", tmp_path)
    folder = alfworld_learning.untrained(3)
    assert alfworld_learning.untrained(3) == folder  # made once
    player = load_model(folder)
    for text in ("go to sidetable 12", " mug 3 desklamp here countertop away", "take knife 1 from drawer 10"):
        assert len(player.chat.encode(text)) == len(text.split())
        assert player.chat.decode(player.chat.encode(text)) == text
    assert read_agent(folder).prompting == alfworld_learning.PROMPTING
    assert alfworld_page.TITLES.keys() >= {"untrained", "clone", "gigpo", "random", "rules"}
