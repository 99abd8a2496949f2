"""Readers of files of papers, of citations, and of queries.

Papers are JSON lines ``{"id", "title", "abstract", "year" or "date", "references"}``, of which title,
abstract, date and references may be missing; citations ``{"citing", "cited"}``; queries those of PaSa
(He et al. 2025), ``{"question", "answer_arxiv_id", "source_meta": {"published_time"}, "qid"}``.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from agentgym.core.types import Passage
from agentgym.data.jsonstream import Watch, read_records, unwatched
from agentgym.envs.papersearch.data.citations import CITATIONS, CitationGraph
from agentgym.envs.papersearch.data.corpus import PaperRecord, edges_of, passage_of
from agentgym.envs.papersearch.data.fields import date_of_id, plain_id, plain_text, read_date
from agentgym.envs.papersearch.topics import Topic
from agentgym.errors import UsageError
from agentgym.retrieval.corpus.passages import PASSAGES, write_passages

_DATES = ("date", "published_time", "published", "year")


def read_papers(path: Path, watch: Watch = unwatched) -> Iterator[PaperRecord]:
    """Read a file of papers."""
    for where, record in read_records(path, watch):
        id = plain_text(_text(record, "id", where))
        if not id:
            raise UsageError(f"{where}: a paper has an id that is not empty")
        dates = (read_date(record.get(name)) for name in _DATES)
        references = record.get("references") or ()
        if not isinstance(references, list | tuple) or not all(type(id) in (str, int) for id in references):
            raise UsageError(f"{where}: references is a list of ids, got {references!r:.60}")
        yield PaperRecord(
            id,
            plain_text(_text(record, "title", where, "")),
            plain_text(_text(record, "abstract", where, "")),
            next(filter(None, dates), 0) or date_of_id(id),
            tuple(plain_text(str(id)) for id in references),
        )


def read_edges(path: Path, watch: Watch = unwatched) -> Iterator[tuple[str, str]]:
    """Read a file of citations: the ids of the paper that cites, and of the one that it cites."""
    for where, record in read_records(path, watch):
        yield plain_text(_text(record, "citing", where)), plain_text(_text(record, "cited", where))


def read_topics(path: Path) -> Iterator[tuple[str, Topic]]:
    """Read a file of queries: source id and topic of each.

    Queries that name no paper are left out.
    """
    for number, (where, record) in enumerate(read_records(path)):
        query = plain_text(_text(record, "question", where))
        ids = record.get("answer_arxiv_id")
        if not isinstance(ids, list) or not all(isinstance(id, str) for id in ids):
            raise UsageError(f"{where}: answer_arxiv_id is a list of ids, got {ids!r:.60}")
        gold = tuple(sorted({plain_id(plain_text(id)) for id in ids} - {""}))
        source = record.get("source_meta")
        date = read_date(source.get("published_time")) if isinstance(source, Mapping) else 0
        name = plain_text(_text(record, "qid", where, f"{path.stem}#{number}"))
        if gold and query:
            yield name, Topic(query, gold, date)


def write_corpus(papers: Path, edges: Path | None, folder: Path, watch: Watch = unwatched) -> int:
    """Write the corpus of a file of papers; return their number.

    The file is read twice: for the papers, and for their references. ``edges``: a file of further citations;
    ``watch`` is called with bytes read so far, of all reading.
    """
    numbers: dict[str, int] = {}
    dates, has_abstract = array("l"), bytearray()

    def passages() -> Iterator[Passage]:
        for paper in read_papers(papers, watch):
            id = plain_id(paper.id)
            if id in numbers:
                raise UsageError(
                    f"{papers}: two papers have the id {paper.id!r:.60}: leave the second one out"
                )
            numbers[id] = len(numbers)
            dates.append(paper.date)
            has_abstract.append(bool(paper.abstract))
            yield passage_of(paper)

    write_passages(folder / PASSAGES, passages(), corpus=f"papersearch {papers.name}")
    read = papers.stat().st_size
    pairs = array("i")
    for edge in edges_of(read_papers(papers, lambda done: watch(read + done)), numbers):
        pairs.extend(edge)
    for citing, cited in read_edges(edges, lambda done: watch(2 * read + done)) if edges else ():
        owner, target = numbers.get(plain_id(citing)), numbers.get(plain_id(cited))
        if owner is not None and target is not None and owner != target:
            pairs.extend((owner, target))
    known = np.frombuffer(bytes(has_abstract), np.bool_)
    graph = CitationGraph.of(
        numbers, np.array(dates, np.int32), known, _unrepeated(np.array(pairs, np.int32))
    )
    graph.write(folder / CITATIONS)
    return len(numbers)


def _unrepeated(pairs: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return (E, 2) edges, each once, where it came first."""
    edges = pairs.reshape(-1, 2)
    keys = edges[:, 0].astype(np.int64) << 32 | edges[:, 1]
    first: npt.NDArray[np.intp] = np.unique(keys, return_index=True)[1]
    return edges[np.sort(first)].copy()


def _text(record: Mapping[str, Any], name: str, where: str, default: str | None = None) -> str:
    value = record.get(name)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise UsageError(f"{where}: {name} is a string, got {value!r:.60}")
    return str(value)
