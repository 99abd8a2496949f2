"""Importer of paper corpora and queries: their files, the corpora made of them, and their lookup."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os.path import expanduser
from pathlib import Path

from agentgym.core.hashing import content_id
from agentgym.core.options import check_choice
from agentgym.data.archives import Progress
from agentgym.data.directory import cache_directory, data_directory, find
from agentgym.data.importing import Importer
from agentgym.data.progress import part_of, progress_bar
from agentgym.data.sources import how_to_get
from agentgym.envs.papersearch.data.citations import CITATIONS, open_citations
from agentgym.envs.papersearch.data.corpus import PaperCorpus, open_corpus
from agentgym.envs.papersearch.data.readers import read_edges, read_papers, read_topics, write_corpus
from agentgym.envs.papersearch.suite import PAPERSEARCH
from agentgym.errors import MissingDataError, UsageError
from agentgym.retrieval.corpus.passages import PASSAGES, PassageFile
from agentgym.retrieval.index import new_folder

IEEE_VIS = "ieee-vis"
ARXIV = "papers"
"""Corpora: of one conference's papers, and of any papers that queries with arXiv ids are asked of."""

QUERIES = {"autoscholar": "AutoScholarQuery", "realscholar": "RealScholarQuery"}
"""Sets of queries, with what their files are called."""

_CORPUS_FILES = {"ieee_vis_papers.jsonl": IEEE_VIS, "papers.jsonl": ARXIV}
_EDGES = "edges.jsonl"
_STORED = (PASSAGES, CITATIONS)
_QUERY_FILE = re.compile(rf"({'|'.join(QUERIES.values())})[_/]([a-z]+)\.jsonl")


@dataclass(frozen=True, slots=True)
class QuerySet:
    """A folder's data of one set."""

    corpus: PaperCorpus
    files: dict[str, Path]
    """Files of queries by split; none where tasks are made of the papers themselves."""


# ---- what `agentgym.data.importing` asks of a source -------------------------------------------------


def find_files(origin: Path) -> Iterator[Path]:
    """Yield the files of a copy, and those that an import wrote, sorted; ``origin`` may be one file."""
    if origin.is_file():
        if origin.name in _CORPUS_FILES or _split_of(origin) is not None:
            yield origin
        return
    folders = (origin, *(origin / name for name in (IEEE_VIS, ARXIV, "queries", *QUERIES.values())))
    for folder in folders:
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.name in (*_CORPUS_FILES, _EDGES, *_STORED) or _split_of(path) is not None:
                yield path


def check_file(path: Path) -> int:
    """Return the number of records in a file; errors name file, line and field."""
    if path.name == PASSAGES:
        return len(PassageFile(path))
    if path.name == CITATIONS:
        return len(open_citations(path)[0].cited.papers)
    if path.name == _EDGES:
        return sum(1 for _ in read_edges(path))
    return sum(1 for _ in (read_papers(path) if path.name in _CORPUS_FILES else read_topics(path)))


def convert(files: Sequence[Path], folder: Path, *, progress: Progress) -> dict[str, int]:
    """Write one corpus for each file of papers, and copy the queries; return the records of each file.

    ``progress`` is called with bytes read and in all.
    """
    stored = [file for file in files if file.name in _STORED]
    if stored:
        raise UsageError(f"{stored[0]} has been imported before: name a copy of the upstream data")
    counts: dict[str, int] = {}
    total = sum(_reading(file) for file in files)
    done = 0
    for file in files:
        if file.name in _CORPUS_FILES:
            name = _CORPUS_FILES[file.name]
            write_corpus(file, _edges_beside(file), folder / name, part_of(progress, done, total))
            counts |= {f"{name}/{part}": check_file(folder / name / part) for part in _STORED}
        elif (found := _split_of(file)) is not None:
            target = folder / "queries" / "_".join(found)
            target = target.with_name(f"{target.name}.jsonl")
            target.parent.mkdir(parents=True, exist_ok=True)
            counts[f"queries/{target.name}"] = check_file(file)
            shutil.copyfile(file, target)
        done += _reading(file)
    if not counts:
        raise UsageError(f"{files[0]} is of no use without {ARXIV}.jsonl beside it")
    return counts


def sets_in(folder: Path) -> frozenset[str]:
    """Return the names of the sets that a folder holds, imported or not."""
    files = list(find_files(folder))
    found = {_CORPUS_FILES.get(file.name, file.parent.name) for file in files if file.name in _CORPUS_FILES}
    found |= {file.parent.name for file in files if file.name == PASSAGES}
    stems = {split[0] for file in files if (split := _split_of(file)) is not None}
    sets = {name for name, stem in QUERIES.items() if stem in stems and ARXIV in found}
    return frozenset(sets | (found & {IEEE_VIS}))


# ---- what the environment asks -----------------------------------------------------------------------


def open_set(dataset: str) -> QuerySet:
    """Return a set's papers and files of queries; papers are imported into the cache at first use.

    ``dataset``: ``papersearch/ieee-vis``, ``papersearch/autoscholar`` or ``papersearch/realscholar``, in the
    data directory; or ``PATH`` or ``PATH/SET``, of a folder with the files of a set.
    """
    known = (IEEE_VIS, *QUERIES)
    root, name = Path(expanduser(dataset)), ""
    if dataset.startswith(f"{PAPERSEARCH.name}/"):
        root, name = data_directory() / PAPERSEARCH.folder, dataset.partition("/")[2]
        check_choice("data set", name, known, where=f"{PAPERSEARCH.name}: ")
        find(root.name, PAPERSEARCH)  # the error of missing files says what to do
    elif root.name in known and not root.exists():
        root, name = root.parent, root.name
    if not root.is_dir():
        raise MissingDataError(
            f"no papers at {dataset!r:.80}: name builtin, {PAPERSEARCH.name}/{IEEE_VIS}, or a folder of them"
        )
    if not name:
        sets = sorted(sets_in(root))
        if len(sets) != 1:
            found = f"holds the sets {', '.join(sets)}: append /SET" if sets else "holds no set of papers"
            raise UsageError(f"{root} {found}")
        (name,) = sets
    return _open(root.absolute(), name)


def _open(root: Path, name: str) -> QuerySet:
    files = list(find_files(root))
    corpus_name = IEEE_VIS if name == IEEE_VIS else ARXIV
    stored = root / corpus_name
    raw = next((file for file in files if _CORPUS_FILES.get(file.name) == corpus_name), None)
    queries = {
        split[1]: file for file in files if (split := _split_of(file)) and split[0] == QUERIES.get(name)
    }
    if name != IEEE_VIS and not queries:
        raise MissingDataError(
            f"no queries of {name!r} in {root}: {how_to_get(PAPERSEARCH, name)}, "
            f"a folder with {QUERIES[name]}_test.jsonl or {QUERIES[name]}/test.jsonl"
        )
    if (stored / PASSAGES).exists():
        return QuerySet(open_corpus(stored), queries)
    if raw is None:
        wanted = next(file for file, corpus in _CORPUS_FILES.items() if corpus == corpus_name)
        raise MissingDataError(
            f"no papers for {name!r} in {root}: run `agentgym data import {PAPERSEARCH.name} PATH` "
            f"on a folder with {wanted}"
            + ("" if name == IEEE_VIS else f" (id, title, abstract, date) and {_EDGES}")
        )
    return QuerySet(_imported(raw), queries)


def _imported(papers: Path) -> PaperCorpus:
    """Return the corpus of a file of papers, from the cache, where it is imported unless it has been."""
    edges = _edges_beside(papers)
    parts = [papers, *([edges] if edges else [])]
    state = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in parts]
    folder = cache_directory() / PAPERSEARCH.folder / f"{papers.stem}-{content_id(state)[:16]}"
    if not folder.exists():
        with progress_bar(f"importing {papers.name}") as progress, new_folder(folder) as draft:
            total = sum(_reading(file) for file in parts)
            write_corpus(papers, edges, draft, part_of(progress, 0, total))
    return open_corpus(folder)


# ---- files -------------------------------------------------------------------------------------------


def _reading(file: Path) -> int:
    """Return the number of bytes read of a file: papers twice."""
    return file.stat().st_size * (2 if file.name in _CORPUS_FILES else 1)


def _edges_beside(papers: Path) -> Path | None:
    edges = papers.with_name(_EDGES)
    return edges if _CORPUS_FILES[papers.name] == ARXIV and edges.is_file() else None


def _split_of(path: Path) -> tuple[str, str] | None:
    """Return the queries and the split of a file; None where it is no file of queries."""
    match = _QUERY_FILE.fullmatch(path.name) or _QUERY_FILE.fullmatch(f"{path.parent.name}/{path.name}")
    return None if match is None else (match[1], match[2])


IMPORTER = Importer(find_files, check_file, convert, sets_in)
