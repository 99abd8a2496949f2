r"""Wire formats of retrieval servers: the two public forms of ``POST /retrieve``.

======== ============================================================ ===================
dialect  body of the request                                          spoken by
======== ============================================================ ===================
queries  ``{"queries": [text, ...], "topk": k, "return_scores": b}``  Search-R1, verl
query    ``{"query": text, "topk": k, "return_scores": b}``            SkyRL, verl-agent
======== ============================================================ ===================

Both are answered with ``{"result": [passages of a query, ...]}``, a list for each query, where a passage is
``{"document": {"id": ..., "contents": "title\ntext"}, "score": s}``, or the document alone without scores.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from agentgym.core.hashing import content_id
from agentgym.core.options import PositiveInt, check_choice, check_fields
from agentgym.core.types import Passage
from agentgym.errors import UsageError, nearest
from agentgym.io.untrusted import loads_json

RetrievalDialect: TypeAlias = Literal["queries", "query"]
"""Form that a server understands."""

DEFAULT_K = 3
"""Passages for each query where a request does not say, as in Search-R1 and verl-agent."""

_KEYS = ("query", "queries", "topk", "return_scores")


@dataclass(frozen=True, slots=True)
class RetrievalLimits:
    """Limits of a server, for one request and for all of them at once."""

    body: PositiveInt = 4 << 20
    """Bytes of a request."""
    queries: PositiveInt = 4_096
    """Queries of a request."""
    characters: PositiveInt = 65_536
    """Characters of a query."""
    k: PositiveInt = 1_000
    """Passages for each query."""
    passages: PositiveInt = 32_768
    """Passages of all queries of a request together."""
    answer: PositiveInt = 64 << 20
    """Bytes of an answer."""
    waiting: PositiveInt = 16_384
    """Queries that wait for the index; further requests are told to come later."""

    def __post_init__(self) -> None:
        """Raise a UsageError unless each limit lets something through."""
        check_fields(self, "limits: ")


class RetrievalRequest(NamedTuple):
    """A client's request."""

    queries: tuple[str, ...]
    k: int
    scores: bool
    """Whether it wants each passage's score."""


class ScoredPassage(NamedTuple):
    """A passage and how well it fits."""

    passage: Passage
    score: float


def check_dialect(dialect: str) -> None:
    """Refuse an unknown dialect; UsageError with the nearest one."""
    check_choice("dialect", dialect, RetrievalDialect)


def read_request(body: bytes, limits: RetrievalLimits, *, default_k: int = DEFAULT_K) -> RetrievalRequest:
    """Parse a request's body, JSON in either dialect.

    ``default_k`` applies where ``topk`` is missing, null or 0. `UsageError` says what the request has to be.

    Example:
        >>> read_request(b'{"query": "Vasa", "topk": 5}', RetrievalLimits())
        RetrievalRequest(queries=('Vasa',), k=5, scores=False)
    """
    table = loads_json(body, "the request")
    if not isinstance(table, dict):
        raise UsageError(f"a request is an object with 'query' or 'queries', not {table!r:.60}")
    for key in table:
        if key not in _KEYS:
            raise UsageError(f"a request has no {key!r:.60}{nearest(key, _KEYS)}; known: {', '.join(_KEYS)}")
    if ("query" in table) == ("queries" in table):
        raise UsageError("a request has either 'query', one text, or 'queries', a list of them")
    queries = [table["query"]] if "query" in table else table["queries"]
    k = table.get("topk") or default_k
    scores = table.get("return_scores", False)
    if not isinstance(queries, list) or len(queries) > limits.queries:
        raise UsageError(f"'queries' is a list of at most {limits.queries:,} texts: send it in parts")
    for query in queries:
        _check_query(query, limits)
    if type(k) is not int or not 1 <= k <= limits.k:
        raise UsageError(f"'topk' is a whole number from 1 to {limits.k:,}, not {table.get('topk')!r:.60}")
    if len(queries) * k > limits.passages:
        raise UsageError(
            f"a request asks for at most {limits.passages:,} passages, not {k:,} for each of "
            f"{len(queries):,} queries: send it in parts"
        )
    if type(scores) is not bool:
        raise UsageError(f"'return_scores' is true or false, not {scores!r:.60}")
    return RetrievalRequest(tuple(queries), k, scores)


def _check_query(query: Any, limits: RetrievalLimits) -> None:
    if not isinstance(query, str):
        raise UsageError(f"a query is a text, not {query!r:.60}")
    if len(query) > limits.characters:
        raise UsageError(f"a query has at most {limits.characters:,} characters, not {len(query):,}")


def write_request(queries: Sequence[str], k: int, dialect: RetrievalDialect) -> bytes:
    """Return the body of a request, with scores; the dialect ``query`` holds one query."""
    wanted: Mapping[str, Any] = {"query": queries[0]} if dialect == "query" else {"queries": list(queries)}
    return json.dumps({**wanted, "topk": k, "return_scores": True}).encode()


def write_document(passage: Passage, *, quoted: bool = False) -> str:
    """Return a passage as a document's JSON; ``quoted`` puts the title in quotation marks, as in wiki-18."""
    contents = f'"{passage.title}"\n{passage.text}' if quoted else passage.contents
    document = {"id": passage.id, "title": passage.title, "text": passage.text, "contents": contents}
    return json.dumps(document, ensure_ascii=False)


def write_answer(found: Sequence[Sequence[tuple[str, float]]], *, scores: bool) -> bytes:
    """Return the body of an answer: for each query its documents, as `write_document` writes them."""
    lists = (
        ", ".join(
            f'{{"document": {document}, "score": {float(score)!r}}}' if scores else document
            for document, score in passages
        )
        for passages in found
    )
    return f'{{"result": [{", ".join(f"[{passages}]" for passages in lists)}]}}'.encode()


def read_answer(body: bytes, count: int, k: int) -> list[list[ScoredPassage]]:
    """Parse a server's answer to a request with scores.

    `UsageError` unless it is a list of at most ``k`` distinct passages with finite scores for each of
    ``count`` queries. A passage needs ``contents``, or ``title`` and ``text``; one without an id is named
    after its content.
    """
    table = loads_json(body, "the answer")
    lists = table.get("result") if isinstance(table, dict) else None
    if not isinstance(lists, list):
        raise UsageError(f"the answer has no list 'result', but is {table!r:.60}")
    if len(lists) != count:
        raise UsageError(f"the answer has {len(lists)} lists of passages for {count} queries")
    return [_read_list(passages, k) for passages in lists]


def _read_list(passages: Any, k: int) -> list[ScoredPassage]:
    if not isinstance(passages, list) or len(passages) > k:
        raise UsageError(f"the passages of a query are a list of at most {k}, not {passages!r:.60}")
    read = [_read_passage(passage) for passage in passages]
    if len({found.passage.id for found in read}) != len(read):
        raise UsageError("the answer has one passage twice for a query, as where k is larger than the corpus")
    return read


def _read_passage(found: Any) -> ScoredPassage:
    document = found.get("document") if isinstance(found, dict) else None
    if not isinstance(document, dict):
        raise UsageError(f"a passage is an object with 'document' and 'score', not {found!r:.60}")
    score = found.get("score")
    if type(score) not in (int, float) or not math.isfinite(score):
        raise UsageError(f"a score is a finite number, not {score!r:.60}")
    return ScoredPassage(read_document(document), float(score))


def read_document(document: Mapping[str, Any]) -> Passage:
    r"""Return the passage of a document, as public corpora and servers have them.

    The title is what ``title`` says, else the first line of ``contents``, without the quotation marks around
    it; the text is ``text``, else the other lines.

    `UsageError` where it has neither ``contents`` nor a ``text``, or a field is no text.

    Example:
        >>> read_document({"id": 7, "contents": '"Vasa"\nA ship.'})
        Passage(id='7', title='Vasa', text='A ship.')
    """
    contents, title, text = (document.get(key) for key in ("contents", "title", "text"))
    if isinstance(contents, str) and not (isinstance(title, str) and isinstance(text, str)):
        title, _, text = contents.partition("\n")
        if len(title) > 1 and title[0] == title[-1] == '"':
            title = title[1:-1]
    if not (isinstance(title, str) and isinstance(text, str)):
        raise UsageError(
            f"a document has texts 'title' and 'text', or 'contents', not {dict(document)!r:.60}"
        )
    title = " ".join(title.splitlines()) if "\n" in title else title
    id = document.get("id")
    if id is None:
        id = content_id([title, text])
    if type(id) not in (str, int) or id == "":
        raise UsageError(f"the id of a document is a text or a whole number, not {id!r:.60}")
    return Passage(str(id), title, text)
