"""What a release needs: ``python -m tools.release_check``.

Builds the wheel and the sdist, and looks at what is in them and in the checkout: a line each, ``ok`` or
``wrong``. The index is asked whether every package of every documented install line can be had.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from email.parser import HeaderParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "RELEASE_BY_HAND.md")
INSTALL = re.compile(r"pip install ([^`\"#|\n]+)")
LINK = re.compile(r"\]\(([^)\s]+)\)")
OF_CHECKOUT = re.compile(r"'?(?:\.|/path/to/this/checkout)(?:\[([\w,-]+)\])?'?")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command of this Python in the checkout."""
    return subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)


def built(folder: Path) -> Iterator[str]:
    """Yield what is wrong with building and with the files' descriptions."""
    build = run("hatchling", "build", "--directory", str(folder))
    if build.returncode:
        yield build.stderr.strip().splitlines()[-1]
        return
    checked = run("twine", "check", "--strict", *map(str, folder.iterdir()))
    if checked.returncode:
        yield " ".join((checked.stdout + checked.stderr).split())


def wheel_version(folder: Path) -> str:
    """Return the version that the wheel was built as."""
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return str(HeaderParser().parsestr(archive.read(name).decode())["Version"])


def versions(folder: Path) -> Iterator[str]:
    """Yield where another version stands than in the wheel."""
    version = wheel_version(folder)
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        if {Path(name).parts[0] for name in archive.getnames()} != {f"agentgym_suite-{version}"}:
            yield f"{sdist.name} does not unpack to agentgym_suite-{version}"
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    if cited is None or cited[1] != version:
        yield f"CITATION.cff: write version: {version}"
    if run_git("tag", "--list", f"v{version}"):
        yield f"the tag v{version} is there already: raise agentgym/version.py"


def changelog(folder: Path) -> Iterator[str]:
    """Yield what the changelog lacks for this version."""
    version, text = wheel_version(folder), (ROOT / "CHANGELOG.md").read_text()
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", text, re.MULTILINE):
        yield f"CHANGELOG.md: give what is under [Unreleased] the heading ## [{version}] - YYYY-MM-DD"


def run_git(*command: str) -> str:
    """Return what git prints in the checkout."""
    return subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def pages() -> list[Path]:
    """Return the pages that people read."""
    folders = (
        path for path in sorted((ROOT / "docs").rglob("*.md")) if not {"_build", "sphinx"} & {*path.parts}
    )
    return [*(ROOT / page for page in PAGES), *folders]


def clean(_: Path) -> Iterator[str]:
    """Yield what is not committed."""
    yield from (f"not committed: {line[3:]}" for line in run_git("status", "--porcelain").splitlines())


def links(_: Path) -> Iterator[str]:
    """Yield links that lead nowhere: files and anchors of the checkout."""
    for page in pages():
        for link in LINK.findall(page.read_text(encoding="utf-8")):
            target, _, anchor = link.partition("#")
            if "://" in target or target.startswith("mailto:"):
                continue
            path = (page.parent / target).resolve() if target else page
            where = page.relative_to(ROOT)
            if not path.exists():
                yield f"{where}: {link} leads nowhere"
            elif anchor and path.suffix == ".md" and anchor not in anchors(path):
                yield f"{where}: {link} names no heading"


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"[`*]|\[|\]\([^)]*\)", "", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


def install_lines() -> Iterator[tuple[str, str]]:
    """Yield each documented install line with its page; those of the release itself are true after it."""
    for page in pages():
        if page.name != "RELEASE_BY_HAND.md":
            for line in INSTALL.findall(page.read_text(encoding="utf-8")):
                yield str(page.relative_to(ROOT)), line.strip()


def installs(folder: Path) -> Iterator[str]:
    """Yield install lines whose extras or packages cannot be had."""
    (wheel,) = folder.glob("*.whl")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked: dict[tuple[str, ...], str] = {}
    for page, line in install_lines():
        if line == "...":
            continue
        own = OF_CHECKOUT.fullmatch(line)
        if own is None:
            asked.setdefault(tuple(line.replace("'", "").split()), f"{page}: pip install {line}")
            continue
        names = own[1].split(",") if own[1] else []
        unknown = [name for name in names if name not in extras]
        if unknown:
            yield f"{page}: there is no extra {', '.join(unknown)}"
            continue
        packages = f"{wheel}[{','.join(names)}]" if names else str(wheel)
        asked.setdefault((packages,), f"{page}: pip install {line}")
    for arguments, where in asked.items():
        tried = run("pip", "install", "--dry-run", "--quiet", "--ignore-installed", *arguments)
        if tried.returncode:
            yield f"{where}: {tried.stderr.strip().splitlines()[-1]}"


CHECKS: tuple[tuple[str, Callable[[Path], Iterator[str]]], ...] = (
    ("wheel and sdist", built),
    ("versions", versions),
    ("changelog", changelog),
    ("committed", clean),
    ("links", links),
    ("install lines", installs),
)


def main() -> int:
    """Check everything; return 1 where something is wrong."""
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        for title, check in CHECKS:
            problems = list(check(Path(name)))
            wrong += len(problems)
            sys.stdout.write(f"{'wrong' if problems else 'ok':5}  {title}\n")
            for problem in problems:
                sys.stdout.write(f"       {problem}\n")
            if problems and check is built:
                break
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
