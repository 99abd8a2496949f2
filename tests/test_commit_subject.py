"""Subjects of commits that the hook takes and refuses."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.commit_subject import problem, subject_of

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    "subject",
    [
        "training: a resumed run keeps its seed",
        "inference, training: engines in their own package; training in twelve rooms",
        "evaluation/board: Markdown of scores as before",
        "Merge branch 'main' into models",
        "Merge remote-tracking branch 'origin/main'",
        'Revert "training: a resumed run keeps its seed"',
    ],
)
def test_a_subject_that_names_its_area_is_taken(subject):
    assert problem(subject) is None


@pytest.mark.parametrize(
    "subject",
    [
        "",
        "wip",
        "Plainer words",
        "Training: a resumed run keeps its seed",
        "training:a resumed run keeps its seed",
        "training: ",
        "training: a resumed run keeps its seed.",
        "training and tests: a resumed run keeps its seed",
        "Reverts the seed",
    ],
)
def test_another_subject_is_refused_in_one_line(subject):
    refusal = problem(subject)
    assert "area: what changes" in refusal
    assert "\n" not in refusal


def test_comments_of_a_message_are_no_subject():
    assert (
        subject_of("\n# Please enter the message\ntests: fewer sleeps\n\nThe body.\n")
        == "tests: fewer sleeps"
    )
    assert subject_of("# Nothing but a comment\n") == ""


@pytest.mark.parametrize(("subject", "code"), [("tests: fewer sleeps", 0), ("Fewer sleeps", 1)])
def test_the_hook_runs_it_on_the_message_s_file(subject, code, tmp_path):
    config = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    (entry,) = [line for line in config.splitlines() if "commit_subject" in line]
    words = entry.partition("entry: .venv/bin/python ")[2].split()
    message = tmp_path / "COMMIT_EDITMSG"
    message.write_text(f"{subject}\n", encoding="utf-8")
    done = subprocess.run([sys.executable, *words, message], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, bool(done.stderr)) == (code, bool(code))
