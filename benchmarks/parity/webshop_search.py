"""What searches find beside what the original's found: ``python -m benchmarks.parity.webshop_search``.

Every query that the recordings of the original environment hold is asked again, of each engine, over the
same 1,000 products (``--recordings FOLDER`` as for `benchmarks.parity.webshop`; AGENTGYM_DATA has the
products). bm25s is given the same terms as the project's own index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from agentgym.envs.webshop.data.importer import open_catalogue
from agentgym.envs.webshop.data.products import Catalogue
from agentgym.envs.webshop.engine.visit import parse
from agentgym.envs.webshop.engine.world import FOUND
from agentgym.envs.webshop.source import documents, search_in_memory
from agentgym.retrieval.analysis import Analyser
from agentgym.retrieval.index import Index
from benchmarks.harness.report import machine, parser, publish, table
from benchmarks.parity.webshop import read_episodes

OUT = Path(__file__).with_suffix(".json")

PAGE = 10
"""Products on a page of results."""

Search = Callable[[str], list[str]]
"""Returns the names of what a query finds, best first."""


def recorded_searches(recordings: Path) -> dict[str, list[str]]:
    """Return what each query of the recordings had found."""
    found: dict[str, list[str]] = {}
    for episode in read_episodes(recordings):
        for step in episode["steps"]:
            said = parse(step["action"])
            if "search_results" in step and said is not None:
                found[said[1]] = step["search_results"]
    return found


def agreement(search: Search, recorded: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Compare an engine with the recordings.

    Returns:
        ``top 10``: mean share of the recorded first page that the engine's has; ``top 50``: the same of all
        that was found; ``tau``: mean Kendall correlation of the ranks of what both found; ``identical``:
        share of the queries with the same list.
    """
    shares, wider, taus, identical = [], [], [], 0
    for query, theirs in recorded.items():
        ours = search(query)
        shares.append(len(set(ours[:PAGE]) & set(theirs[:PAGE])) / min(PAGE, len(theirs)))
        common = [asin for asin in theirs if asin in set(ours)]
        wider.append(len(common) / len(theirs))
        taus.append(kendall([ours.index(asin) for asin in common]))
        identical += ours == list(theirs)
    return {
        "top 10": float(np.mean(shares)),
        "top 50": float(np.mean(wider)),
        "tau": float(np.mean(taus)),
        "identical": identical / len(recorded),
    }


def kendall(ranks: Sequence[int]) -> float:
    """Return Kendall's correlation of different ranks with their order."""
    pairs = [ranks[i] < ranks[j] for j in range(len(ranks)) for i in range(j)]
    return 2 * sum(pairs) / len(pairs) - 1 if pairs else 1.0


def asked(index: Index) -> Search:
    """Return a search of an index."""
    return lambda query: index.ids(index.search(query, FOUND).documents)


def bm25s_search(catalogue: Catalogue) -> Search:
    """Return a search by bm25s."""
    import bm25s

    analyser = Analyser()
    names, texts = zip(*documents(catalogue), strict=True)
    index = bm25s.BM25(method="lucene", k1=0.9, b=0.4)
    index.index([analyser.terms(text) for text in texts], show_progress=False)

    def search(query: str) -> list[str]:
        terms = [term for term in analyser.terms(query) if term in index.vocab_dict]
        places, scores = index.retrieve([terms], k=FOUND, show_progress=False)
        return [names[i] for i, score in zip(places[0].tolist(), scores[0], strict=True) if score > 0]

    return search


def compare(recordings: Path) -> dict[str, dict[str, float]]:
    """Compare all engines."""
    catalogue = open_catalogue("webshop/small")
    recorded = recorded_searches(recordings)
    return {
        "bm25": agreement(asked(search_in_memory(catalogue, "webshop/small")), recorded),
        "bm25s": agreement(bm25s_search(catalogue), recorded),
    }


def markdown(results: Mapping[str, Mapping[str, float]], queries: int, versions: str) -> str:
    """Write the table."""
    lines = [
        "# WebShop's search beside the original's",
        "",
        f"`python -m benchmarks.parity.webshop_search`; {versions}.",
        "",
        f"{queries} queries of the recorded episodes, over the same 1,000 products: the share of the",
        "recorded first page of ten, and of all fifty, that is found; Kendall's correlation of the ranks of",
        "what both found; the share of queries that find the same list in the same order. `bm25` is the",
        "project's own index; `bm25s` has exact lengths and leaves ties to chance.",
        "",
    ]
    keys = ("top 10", "top 50", "tau", "identical")
    rows = ((engine, *(f"{row[key]:.3f}" for key in keys)) for engine, row in results.items())
    lines += table(("engine", "top 10", "top 50", "ranks (tau)", "identical lists"), rows)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Compare and write the report."""
    given = parser(__spec__.name, __doc__)
    given.add_argument("--recordings", type=Path, required=True)
    arguments = given.parse_args()
    results = compare(arguments.recordings)
    about = machine("bm25s", "PyStemmer")
    versions = ", ".join(f"{name} {about[name]}" for name in ("numpy", "bm25s", "PyStemmer"))
    queries = len(recorded_searches(arguments.recordings))
    record = {"machine": about, "queries": queries, "engines": results}
    publish(OUT, record, markdown(results, queries, versions))


if __name__ == "__main__":
    main()
