"""The documentation's training commands have been run, and each seed of each improved."""

from benchmarks.documented import SEEDS, documented, first, read


def test_every_training_command_of_the_documentation_improves_with_every_seed():
    commands = documented()
    assert commands
    for command in commands:
        runs = [run for run in read() if run["command"] == command]
        assert sorted(run["seed"] for run in runs) == list(SEEDS), command
        for run in runs:
            assert first(run["after"]) > first(run["before"] or {"": 0.0}), (command, run["seed"])
