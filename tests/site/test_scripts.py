"""The scripts and styles: typed, short, without markup made of text; and another project's one file."""

import hashlib
import re
import subprocess
from pathlib import Path

import pytest

STATIC = Path(__file__).parents[2] / "agentgym" / "site" / "static"
OWN = sorted(path for path in STATIC.glob("*.js") if not path.name.startswith("uPlot"))
VENDORED = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}
"""uPlot 1.6.32, as npm has it."""

FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|localStorage|indexedDB|"
    r"sessionStorage|document\.cookie|\bfetch\(|XMLHttpRequest|WebSocket|EventSource|sendBeacon|"
    r"\bimport\(|https?://"
)
MAX_LINES = 1_570


def test_the_vendored_files_are_as_they_were_published():
    for name, digest in VENDORED.items():
        assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == digest
    assert {path.name for path in STATIC.glob("uPlot*")} == VENDORED.keys()
    notices = (STATIC.parents[2] / "THIRD_PARTY.md").read_text()
    assert "Leon Sorokin" in notices


def test_scripts_make_no_markup_of_text_store_nothing_and_connect_to_nobody():
    lines = 0
    for path in OWN:
        text = path.read_text()
        lines += len(text.splitlines())
        code = re.sub(r"http://www\.w3\.org/2000/svg", "", text)
        assert FORBIDDEN.findall(code) == [], path.name
        assert text.startswith("// @ts-check\n")
    assert lines <= MAX_LINES


def test_styles_load_nothing():
    for path in STATIC.glob("*.css"):
        assert not re.search(r"@import|url\(|https?:", path.read_text()), path.name


@pytest.mark.npm
def test_scripts_are_typed(npm_modules):
    compiler = npm_modules / ".bin" / "tsc"
    options = [
        "--noEmit",
        "--allowJs",
        "--checkJs",
        "--strict",
        "--target",
        "ES2021",
        "--lib",
        "ES2021,DOM,DOM.Iterable",
        "--types",
    ]
    found = subprocess.run([compiler, *options, "", *OWN], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout
