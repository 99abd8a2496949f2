"""BM25 as Lucene ranks, without Java."""

from agentgym.retrieval.engines.bm25.index import ENGINE, FOLDER, Bm25, build_bm25, open_bm25

__all__ = ["ENGINE", "FOLDER", "Bm25", "build_bm25", "open_bm25"]
