"""The speed benchmark runs, and holds what does not depend on the machine."""

import json
import subprocess
import sys

import pytest

FAKE = """
class WebAgentTextEnv:
    instruction_text = "lamp"

    def __init__(self, **options):
        assert options == {"observation_mode": "text", "num_products": 1000, "human_goals": False}
        print("Loaded 1 goals.")

    def reset(self):
        self.left = 5

    def step(self, action):
        self.left -= 1
        return "", 0.0, self.left == 0, None

    def get_available_actions(self):
        return {"clickables": ["search"] if self.left % 2 else ["back to search"]}
"""


@pytest.mark.slow
def test_the_speed_benchmark_compares_everything(tmp_path):
    """With a stand-in for the original's checkout."""
    package = tmp_path / "checkout" / "web_agent_site" / "envs"
    package.mkdir(parents=True)
    (package / "web_agent_text_env.py").write_text(FAKE)
    command = [sys.executable, "-m", "benchmarks.speed.webshop", "--rounds", "2", "--seconds", "0.05"]
    command += ["--products", "500", "--upstream", str(tmp_path / "checkout")]
    command += ["--upstream-python", sys.executable, "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "webshop.json").read_text())
    found = {(row["discipline"], row["contestant"]): row for row in record["rows"]}
    for name in ("single environment", "vector environment, N = 128", "vector environment, N = 1,024"):
        assert found[f"{name}, searches cached", "agentgym"]["median"] > 0
        assert found[f"{name}, searches cached", "WebShop"]["ratio"] > 0
    for words in ("six words", "an instruction"):
        name = f"single environment, 500 products, a new search for {words} every three steps"
        assert found[name, "agentgym"]["median"] > 0
    one, many, neither = record["memory_bytes"].values()
    assert many <= 1.2 * one
    assert neither < one
    table = (tmp_path / "webshop.md").read_text()
    assert "32 to 35 steps per processor" in table
    assert all(row["discipline"] in table for row in record["rows"])
