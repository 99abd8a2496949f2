"""What a run says about where it was made."""

import platform
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import agentgym
from agentgym.evaluation.suites.suite import AgentCard, SuiteAgent
from agentgym.io.provenance import SALT_FILE, here_and_now, host_digest
from agentgym.io.records import parse


def test_provenance_names_the_code_that_ran() -> None:
    here = here_and_now()
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"],
        cwd=Path(agentgym.__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert here.commit == (head.stdout.strip() or None)
    assert here.agentgym == agentgym.__version__
    assert here.python == platform.python_version()
    assert {"gymnasium", "numpy"} == set(here.packages)
    assert platform.node() not in str(here)


def test_the_salt_is_kept_in_a_folder_that_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "new" / "cache"
    monkeypatch.setenv("AGENTGYM_CACHE", str(cache))
    first = host_digest()
    assert (cache / SALT_FILE).is_file()
    assert host_digest() == first
    (cache / SALT_FILE).write_bytes(b"another salt, 16")
    assert host_digest() != first


def test_only_the_date_may_differ_within_a_place() -> None:
    here = here_and_now()
    assert here.same_place(replace(here, date="2020-01-01T00:00:00+00:00"))
    for change in ({"commit": "0" * 40}, {"host": "00000000"}, {"packages": {"numpy": "1"}}):
        assert not here.same_place(replace(here, **change))


def test_who_answers_for_an_agent_does_not_change_what_it_is() -> None:
    agent = parse(SuiteAgent, {"name": "a", "kind": "random", "card": {"contact": "me"}}, "agent")
    assert agent.card.contact == "me"
    assert agent.identity == replace(agent, card=AgentCard()).identity
    assert agent.identity != replace(agent, options={"x": 1}).identity
