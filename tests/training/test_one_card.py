"""The list of checks of one GPU: its commands are commands, and its report goes on where it was stopped."""

import json
import sys

import pytest

from agentgym.cli.commands import make_parser
from benchmarks.gpu.__main__ import PAGE, RESULTS, run_list
from benchmarks.gpu.checks import EXPECTED, Check, checks, ratios, resume_after_kill


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_command_is_understood(tmp_path, device):
    found = checks(device, "", tmp_path)
    assert {check.name for check in found} == set(EXPECTED)
    assert len(found) == len(EXPECTED)
    for check in found:
        if check.command[2] == "agentgym":
            assert make_parser().parse_args(check.command[3:]).debug is False


def program(text):
    return (sys.executable, "-c", text)


def test_what_has_passed_is_not_run_again(tmp_path):
    figures = {"tokens_per_second": 2.5}
    count = f"open({str(tmp_path / 'count')!r}, 'a').write('x')"
    good = Check("good", "passes", program(count), lambda _: figures)
    bad = Check("bad", "fails", program(f"{count}; raise SystemExit('no | memory')"), lambda _: figures)
    absent = Check("absent", "cannot run", program(count), lambda _: figures, missing="no vllm")
    for _ in range(2):
        assert run_list([good, bad, absent], "cpu", tmp_path, 1.0) == 1
    assert (tmp_path / "count").read_text() == "xxx"
    results = json.loads((tmp_path / RESULTS).read_text())["checks"]
    assert [result["end"] for result in results.values()] == ["passed", "failed", "left out"]
    assert results["bad"]["error"] == "no | memory"
    page = (tmp_path / PAGE).read_text()
    assert "| good | passes | passed | 0 |  | tokens_per_second 2.5 |" in page
    assert "| bad | fails | failed | 0 |  | no / memory |" in page
    assert run_list([good], "cpu", tmp_path / "late", 0.0) == 0
    assert not (tmp_path / "late" / RESULTS).exists()


def test_a_run_that_is_over_too_soon_was_not_killed(tmp_path):
    check = Check("x", "", program("pass"), lambda _: {}, killed_after=1)
    assert resume_after_kill(check, tmp_path, 60.0) == "over before it was killed, with exit 0"


def test_a_switch_stands_beside_the_run_without_it():
    figures = {"rows": {"grad_norm": 2.0, "seconds/update": 3.0}, "flash": {"grad_norm": 2.1, "mfu": 0.4}}
    results = {name: {"figures": found} for name, found in figures.items()}
    assert ratios("flash", results) == {"grad_norm / rows's": pytest.approx(1.05)}
    assert ratios("rows", results) == {}
    assert EXPECTED["flash"].startswith("the same grad_norm")
