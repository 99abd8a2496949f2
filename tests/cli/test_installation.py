"""Bare ``agentgym doctor``: whether the installation is sound."""

import os
import subprocess
import sys

from agentgym.cli import installation


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
