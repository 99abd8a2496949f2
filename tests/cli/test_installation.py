"""Bare ``agentgym doctor``: whether the installation is sound."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

from agentgym.cli import installation
from agentgym.io import optional


def test_a_sound_installation(cli, tmp_path):
    code, out, err = cli("doctor")
    assert (code, err, "FAIL" in out) == (0, "", False)
    lines = out.splitlines()
    assert [line[:4] for line in lines[:5]] == ["ok  "] * 5
    assert lines[0].startswith("ok   Python 3.")
    assert "gymnasium " in lines[1]
    assert "numpy " in lines[1]
    assert f"cache: {tmp_path / 'cache'}" in lines[3]
    assert lines[4] == "ok   one step of agentgym/EZPoints-v0"
    assert lines[5].startswith(f"     data: {tmp_path / 'data'} (not there;")
    assert "     extra plot: present" in lines
    assert not any("extra dev" in line for line in lines)


def test_what_is_missing_is_a_line_with_its_remedy(cli, monkeypatch):
    installed = installation._is_installed
    monkeypatch.setattr(
        installation, "_is_installed", lambda name: name not in ("rich", "matplotlib") and installed(name)
    )
    code, out, _ = cli("doctor")
    assert code == 1
    assert "FAIL core: rich is missing: pip install 'rich>=13.7'\n" in out
    assert "     extra plot: absent (matplotlib): pip install 'matplotlib<4,>=3.11'\n" in out
    monkeypatch.setattr(installation, "_is_installed", lambda name: False)
    code, out, _ = cli("doctor")
    assert (code, "FAIL core: agentgym-suite is not installed" in out, "extra" in out) == (1, True, False)


def test_the_pythons_that_are_tested_are_those_of_the_classifiers(monkeypatch):
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    claimed = re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', text)
    monkeypatch.setattr(installation.platform, "system", lambda: "Linux")
    monkeypatch.setattr(installation.platform, "machine", lambda: "x86_64")
    for minor in range(10, 16):
        monkeypatch.setattr(installation.platform, "python_version", lambda minor=minor: f"3.{minor}.1")
        assert ("not tested" in installation._python()) == (str(minor) not in claimed)


def test_an_extra_that_this_python_is_too_new_for_is_a_line(cli, monkeypatch):
    installed = installation._is_installed
    gone = ("alfworld", "textworld", "bm25s")
    monkeypatch.setattr(installation, "_is_installed", lambda name: name not in gone and installed(name))
    monkeypatch.setattr(optional, "sys", SimpleNamespace(version_info=(3, 13, 0)))
    _, out, _ = cli("doctor")
    assert "     extra alfworld: use an older Python, which the extra alfworld needs\n" in out
    assert "'bm25s<" in out
    assert "textworld" not in out
    monkeypatch.setattr(optional, "sys", SimpleNamespace(version_info=(3, 12, 0)))
    assert "     extra alfworld: absent (alfworld, textworld): pip install 'alfworld==" in cli("doctor")[1]


def test_two_packages_of_faiss_are_refused(cli, monkeypatch):
    installed = installation._is_installed
    monkeypatch.setattr(
        installation, "_is_installed", lambda name: name in installation.FAISS or installed(name)
    )
    monkeypatch.setattr(installation, "FAISS", ("faiss-cpu", "faiss-gpu-cu12"))
    code, out, _ = cli("doctor")
    assert code == 1
    assert "FAIL faiss: faiss-cpu and faiss-gpu-cu12 overwrite each other: pip uninstall -y faiss-cpu" in out


def test_a_cache_that_cannot_be_made_and_a_step_that_fails(cli, monkeypatch, tmp_path):
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setattr(installation, "_ENV", "agentgym/Nope-v0")
    code, out, _ = cli("doctor")
    assert code == 1
    assert "or set AGENTGYM_CACHE" in out
    assert f"FAIL cache: cannot write {tmp_path / 'cache'}: File exists; " in out
    assert "FAIL step: unknown id 'agentgym/Nope-v0'" in out


def test_the_report_is_on_training(refused):
    assert "add --cpu or --gpu" in refused("doctor", "--out", "report.json")


def test_it_needs_no_torch():
    code = (
        "import sys; from agentgym.cli import main; main(['doctor']);"
        "sys.exit(any(name.split('.')[0] in ('torch', 'faiss') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, env=os.environ).returncode == 0
