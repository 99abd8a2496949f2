"""Downloads that are killed, and two at once: a set is there as a whole, or not at all."""

import os
from pathlib import Path

import pytest

from tests.official.copies import Copies
from tests.official.host import Host
from tests.official.kills import Killer, points, sets
from tests.official.machines import Machine, counted, kill
from tests.official.tables import rewritten, write
from tests.waiting import wait_until

pytestmark = [pytest.mark.assets, pytest.mark.long]

DATA = Path(os.environ.get("AGENTGYM_DATA", "")).absolute()

QUICK = ("webshop-small", "sotopia", "hotpotqa-fullwiki")


@pytest.fixture(scope="module")
def killer(tmp_path_factory):
    return Killer(DATA, tmp_path_factory.mktemp("machines"))


@pytest.mark.parametrize("number", range(6))
def test_a_download_that_is_killed_is_started_again(number, killer):
    outcome = killer.play(points(7, 6, QUICK)[number])
    assert outcome.killed
    assert outcome.wrong == ()


@pytest.mark.slow
@pytest.mark.parametrize("number", range(60))
def test_sixty_kills_of_all_sets(number, killer):
    assert killer.play(points(1, 60, sets())[number]).wrong == ()


@pytest.fixture
def machine(tmp_path):
    copies = Copies(DATA)
    with Host(copies.of) as host:
        yield Machine(tmp_path, write(tmp_path / "sources.toml", rewritten(copies.of, host.address))), host


@pytest.mark.parametrize("back", [0, 1])
def test_a_kill_between_two_imports_of_a_source_loses_neither(back, machine):
    """The second replaces the folder of the first: it is moved aside, and the new one is put in its place."""
    machine, _ = machine
    assert machine.run("data", "download", "webshop-small").returncode == 0
    small = machine.imported("webshop")
    draft = machine.folder / "whole"
    other = Machine(draft, machine.table)
    assert other.run("data", "download", "webshop-small").returncode == 0
    whole = other.run("data", "download", "webshop", place="0")
    both = other.imported("webshop")
    assert len(both) == len(small) + 1
    # the last renames are those of the folders, and of the record of what was done
    place = f"rename:{counted(whole)[1] - 1 - back}"
    assert machine.run("data", "download", "webshop", place=place).returncode == -9
    assert machine.imported("webshop") in ({}, small)
    assert machine.run("data", "download", "webshop").returncode == 0
    assert machine.imported("webshop") == both
    assert not [path for path in machine.left() if path.endswith(".old")]


def test_the_second_of_two_processes_waits(machine):
    machine, host = machine
    whole = host.content
    host.pause_at = 100_000
    first = machine.start("data", "download", "sotopia")
    wait_until(host.paused.is_set)
    second = machine.start("data", "download", "sotopia")
    assert "another process" in second.stderr.readline()
    host.resume()
    for process in (first, second):
        _, err = process.communicate()
        assert process.returncode == 0, err
    total = sum(
        len(whole(each.path.replace("/raw", "https://raw", 1)))
        for each in host.asked
        if "range" not in each.headers
    )
    assert host.sent == total  # each file came once
    assert machine.run("data", "verify", "sotopia").returncode == 0


def test_the_second_goes_on_where_the_first_is_killed(machine):
    machine, host = machine
    host.pause_at = 100_000
    first = machine.start("data", "download", "sotopia")
    wait_until(host.paused.is_set)
    second = machine.start("data", "download", "sotopia")
    assert "another process" in second.stderr.readline()
    assert kill(first) == -9
    host.resume()
    _, err = second.communicate()
    assert second.returncode == 0, err
    assert machine.run("data", "verify", "sotopia").returncode == 0


def test_two_sets_of_a_source_at_once_are_both_there(machine):
    machine, _ = machine
    processes = [machine.start("data", "download", name) for name in ("webshop-small", "webshop")]
    for process in processes:
        _, err = process.communicate()
        assert process.returncode == 0, err
    assert len(machine.imported("webshop")) == 3
    assert machine.run("data", "verify", "webshop").returncode == 0


def test_what_came_before_a_kill_is_not_sent_again(machine):
    machine, host = machine
    host.pause_at = 40_000
    first = machine.start("data", "download", "musique")
    wait_until(lambda: sum(path.stat().st_size for path in machine.folder.rglob("*.part")) > 26_000)
    assert kill(first) == -9
    host.resume()
    before = host.sent
    assert machine.run("data", "download", "musique").returncode == 0
    assert host.asked[-1].headers["range"].startswith("bytes=")
    assert host.sent - before < 25_000  # of 50,649; a few blocks were on their way
