"""Importing beside the package index's other ``agentgym`` is one clear error."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agentgym.namesake import refuse_namesake

ROOT = Path(__file__).resolve().parents[1]


def site_with(tmp_path: Path, *distributions: str) -> Path:
    """Make a folder that holds agentgym as an installation does, beside the records of distributions."""
    (tmp_path / "agentgym").mkdir()
    for part in (ROOT / "agentgym").iterdir():
        if part.name != "__pycache__":
            (tmp_path / "agentgym" / part.name).symlink_to(part)
    (tmp_path / "agentgym" / "r1_pipeline.py").write_text("raise RuntimeError('the other project ran')\n")
    for name in distributions:
        (tmp_path / name).mkdir()
    return tmp_path


def import_in(site: Path) -> subprocess.CompletedProcess[str]:
    code = f"import sys; sys.path.insert(0, {str(site)!r}); import agentgym; print(agentgym.__file__)"
    return subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, cwd=site)


def test_the_other_distribution_is_refused(tmp_path):
    site = site_with(tmp_path, "agentgym_suite-0.1.0.dist-info", "agentgym-0.0.2.dist-info")
    result = import_in(site)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == (
        "ImportError: agentgym-0.0.2 of the package index is another project, installed into the same "
        f"folder {site / 'agentgym'}: run `pip uninstall agentgym`, then reinstall agentgym-suite"
    )


def test_this_one_alone_is_imported(tmp_path):
    site = site_with(tmp_path, "agentgym_suite-0.1.0.dist-info", "agentgym_extras-1.0.dist-info")
    result = import_in(site)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == str(site / "agentgym" / "__init__.py")


@pytest.mark.parametrize("record", ["agentgym-0.0.2.dist-info", "agentgym-0.0.2-py3.11.egg-info"])
def test_records_of_either_form_tell(tmp_path, record):
    (tmp_path / record).mkdir()
    with pytest.raises(ImportError, match="another project"):
        refuse_namesake(tmp_path / "agentgym")


def test_the_command_line_says_it_where_the_other_init_is_the_later(tmp_path):
    site = site_with(tmp_path, "agentgym-0.0.2.dist-info")
    (site / "agentgym" / "__init__.py").unlink()
    (site / "agentgym" / "__init__.py").write_text("")
    (site / "agentgym" / "cli").unlink()
    shutil.copytree(ROOT / "agentgym" / "cli", site / "agentgym" / "cli")
    code = f"import sys; sys.path.insert(0, {str(site)!r}); import agentgym.cli"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, cwd=site)
    assert "agentgym-0.0.2 of the package index is another project" in done.stderr.splitlines()[-1]
