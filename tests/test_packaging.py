"""The wheel holds agentgym, its recipes and corpora, and nothing else; no file of it is ignored by Git."""

import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

import pytest

import agentgym
from agentgym.recipes import recipe_names

ROOT = Path(__file__).resolve().parents[1]


def _build(target: str, out: Path, checkout: Path = ROOT) -> Path:
    """Build a distribution without a network, and return its file."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(out)]
    built = subprocess.run(command, cwd=checkout, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    (file,) = out.iterdir()
    return file


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this checkout."""
    return _build("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def wheel_files(wheel: Path) -> set[str]:
    """The names of the files in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_wheel_holds_only_agentgym(wheel_files: set[str]):
    roots = {PurePosixPath(name).parts[0] for name in wheel_files}
    (metadata,) = (root for root in roots if root.endswith(".dist-info"))
    assert metadata == f"agentgym_suite-{agentgym.__version__}.dist-info"
    assert roots == {"agentgym", metadata}
    assert f"{metadata}/licenses/LICENSE" in wheel_files


def test_wheel_holds_every_file_of_agentgym(wheel_files: set[str]):
    on_disk = {
        f"{place}{path.relative_to(ROOT).as_posix()}"
        for folder, place in (("agentgym", ""), ("indexes", "agentgym/"), ("trainers", "agentgym/"))
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not {"__pycache__", "resolved"} & {*path.relative_to(ROOT).parts}
    }
    in_wheel = {name for name in wheel_files if name.startswith("agentgym/")}
    assert in_wheel == on_disk
    assert "agentgym/py.typed" in in_wheel


def test_every_folder_with_code_is_a_subpackage(wheel_files: set[str]):
    folders = {str(PurePosixPath(name).parent) for name in wheel_files if name.endswith(".py")}
    assert {f"{folder}/__init__.py" for folder in folders} <= wheel_files


FIND = """
import site, sys
site.addsitedir(sys.argv[1])
sys.path.append(sys.argv[2])  # what agentgym needs; no .pth file of the folder is read
from agentgym.io.paths import shipped_folder
from agentgym.recipes import recipe_names, root
print(root(), len(recipe_names()), shipped_folder("indexes"), sep="\\n")
"""


def _recipes(site: Path) -> tuple[str, int]:
    """Return where recipes are found with agentgym installed in a folder, and how many there are.

    Corpora are described beside them.
    """
    command = [sys.executable, "-I", "-S", "-c", FIND, str(site), sysconfig.get_path("purelib")]
    done = subprocess.run(command, cwd=site, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    folder, number, corpora = done.stdout.splitlines()
    assert Path(corpora) == Path(folder).with_name("indexes")
    assert (Path(corpora) / "wiki-18.toml").is_file()
    return folder, int(number)


def test_recipes_are_found_in_a_wheel_and_in_a_wheel_of_the_source_distribution(wheel: Path, tmp_path: Path):
    source = _build("sdist", tmp_path / "sdist")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (checkout,) = (tmp_path / "unpacked").iterdir()
    again = _build("wheel", tmp_path / "again", checkout)
    for number, file in enumerate((wheel, again)):
        site = tmp_path / f"site{number}"
        with zipfile.ZipFile(file) as archive:
            archive.extractall(site)
        assert _recipes(site) == (str(site / "agentgym" / "trainers"), len(recipe_names()))
    assert _recipes(checkout) == (str(checkout / "trainers"), len(recipe_names()))


def test_recipes_of_an_editable_checkout_are_those_of_the_checkout(tmp_path: Path):
    with zipfile.ZipFile(_build("wheel:editable", tmp_path / "editable")) as archive:
        archive.extractall(tmp_path / "site")
    assert _recipes(tmp_path / "site") == (str(ROOT / "trainers"), len(recipe_names()))


def test_ignore_patterns_are_anchored():
    lines = (ROOT / ".gitignore").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    assert patterns
    assert [pattern for pattern in patterns if not pattern.startswith("/")] == ["__pycache__/"]


def test_constraints_pin_exactly():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert lines
    assert [line for line in lines if line.count("==") != 1 or "*" in line] == []
