"""The data dictionary and the JSON Schemas are those of the files that are written."""

import json
import re
import tomllib
from pathlib import Path

import jsonschema
import pytest
import torch

from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.suites.suite import SuiteAgent
from agentgym.evaluation.verify.verification import verify_run
from agentgym.inference.models.tiny import tiny_model, word_tokenizer
from agentgym.inference.policy.saved import SavedAgent, Training
from agentgym.prompts.settings import Prompting
from agentgym.training.config import TrainConfig, override
from agentgym.training.run import start
from tests.evaluation.conftest import SUITE
from tests.evaluation.corridor import ENV_ID
from tests.saved_agents import save_agent
from tools import data_dictionary

ROOT = Path(__file__).parents[2]


FILES = {file.name: file for file in data_dictionary.FILES}


def test_the_page_of_files_links_every_schema():
    page = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)` \|.*\| \[(\w+)\]\((schemas/[^)]+)\) \|$", page, re.MULTILINE)
    known = [(file.path, file.name, f"schemas/{file.schema_file.name}") for file in FILES.values()]
    assert rows == known


def test_the_site_has_a_page_of_all_fields(capsys):
    page = data_dictionary.page()
    for file in FILES.values():
        assert f"\n## {file.path}\n" in page
        assert page.count(f"(docs/schemas/{file.schema_file.name})") == 1
    data_dictionary.main(["run"])
    printed = capsys.readouterr().out
    assert printed in page
    assert "| `agent.model.training_seed` | integer or null |" in printed
    with pytest.raises(SystemExit, match="unknown file 'runs'; choose of run, episodes, "):
        data_dictionary.main(["runs"])


@pytest.mark.parametrize("name", FILES)
def test_a_schema_changes_with_its_version_only(name):
    """Where this fails, raise the version and run `python -m tools.data_dictionary`; old schemas stay."""
    file = FILES[name]
    assert file.schema_file.read_text(encoding="utf-8") == data_dictionary.schema_text(file)
    jsonschema.Draft202012Validator.check_schema(file.schema)


@pytest.mark.parametrize("name", FILES)
def test_every_field_has_a_type_a_meaning_and_a_voucher(name):
    names = []
    for field, kind, meaning, who in data_dictionary.rows(FILES[name]):
        assert kind, field
        assert meaning, field
        assert who, field
        names.append(field)
    assert len(set(names)) == len(names) > 3


def test_fields_are_told_apart_by_who_vouches():
    who = {field.strip("`"): who for field, _, _, who in data_dictionary.rows(FILES["episodes"])}
    assert (who["rewards"], who["prompt_tokens"]) == ("recomputed", "stated")
    who = {field.strip("`"): who for field, _, _, who in data_dictionary.rows(FILES["run"])}
    assert (who["suite.seed"], who["agent.model.base_model"], who["provenance[].date"]) == (
        "recomputed",
        "stated",
        "stated",
    )
    who = {field.strip("`"): who for field, _, _, who in data_dictionary.rows(FILES["transcripts"])}
    assert who["steps[].tokens.logprobs"] == data_dictionary.MODEL
    assert who["steps[].action"] == data_dictionary.CHECKED


def valid(name, text):
    jsonschema.validate(json.loads(text), FILES[name].schema)


def test_the_files_of_a_run_have_their_form(tmp_path):
    torch.set_num_threads(1)
    training = Training(
        env_id=ENV_ID,
        algorithm="grpo",
        base_model="tiny",
        seed=0,
        run="x",
        iterations=1,
        episodes=1,
        tokens=1,
    )
    prompting = Prompting(wording="terse", answer="bare", choice="constrained")
    tiny = tiny_model("0.1m", word_tokenizer(["left right"]), context=2600)
    save_agent(tmp_path / "model", tiny, SavedAgent(prompting, training))
    valid("agent", (tmp_path / "model" / "agent.json").read_text())
    (tmp_path / "small.toml").write_text(SUITE)
    agent = SuiteAgent("tiny", "model", options={"path": str(tmp_path / "model")})
    (folder,) = run_bench(tmp_path / "small.toml", tmp_path / "out", agents=["tiny"], further=[agent])
    verify_run(folder, suite=tmp_path / "small.toml")
    valid("run", (folder / "run.json").read_text())
    valid("verify", (folder / "verify.json").read_text())
    for name in ("episodes", "transcripts"):
        for line in (folder / f"{name}.jsonl").read_text().splitlines():
            valid(name, line)
    broken = json.loads((folder / "episodes.jsonl").read_text().splitlines()[0])
    del broken["seed"]
    with pytest.raises(jsonschema.ValidationError, match="'seed' is a required property"):
        jsonschema.validate(broken, FILES["episodes"].schema)


def test_kept_rollouts_have_their_form(tmp_path):
    plain = TrainConfig(algorithm="ppo", env_id="agentgym/EZPoints-v0", model="tiny:0.1m", iterations=1)
    changes = {"rollout.tasks": 1, "rollout.group_size": 2, "evaluation.every": 0, "keep_rollouts": 1}
    start(override(plain, changes), tmp_path, logs=[])
    lines = (tmp_path / "rollouts" / "000001.jsonl").read_text().splitlines()
    assert len(lines) == 2
    for line in lines:
        valid("rollouts", line)


def test_shipped_toml_files_have_their_form():
    suites = sorted((ROOT / "agentgym" / "evaluation" / "suites").glob("*.toml"))
    assert suites
    for path in suites:
        jsonschema.validate(tomllib.loads(path.read_text()), FILES["suite"].schema)
    (published,) = ROOT.glob("benchmarks/**/published.toml")
    jsonschema.validate(tomllib.loads(published.read_text()), FILES["published"].schema)
