"""The published form of the leaderboard's files changes only with its version."""

import json
from pathlib import Path

import jsonschema

from agentgym.evaluation.board.exports import CSV_HEAD, SCHEMA, schema

ROOT = Path(__file__).parents[2]


def test_the_schema_changes_with_its_version_only():
    """Where this fails, raise `SCHEMA` and run `python -m tools.data_dictionary`; old schemas stay."""
    path = ROOT / "docs" / "schemas" / f"leaderboard-{SCHEMA}.json"
    assert json.loads(path.read_text()) == schema()
    jsonschema.Draft202012Validator.check_schema(schema())


def test_the_columns_change_with_the_version_only():
    """Where this fails, raise `SCHEMA` and give the new head from that version on."""
    columns = "suite,version,suite_sha256,agent,role,rank,badge,date,environment,type,measure"
    heads = {7: f"{columns},value,low,high,method"}
    latest = max(version for version in heads if version <= SCHEMA)
    assert heads[latest] == ",".join(CSV_HEAD)


def test_the_committed_boards_have_the_published_form():
    boards = json.loads((ROOT / "benchmarks" / "LEADERBOARD.json").read_text())
    jsonschema.validate(boards, schema())
    lines = (ROOT / "benchmarks" / "LEADERBOARD.csv").read_text().splitlines()
    assert lines[0] == ",".join(CSV_HEAD)
