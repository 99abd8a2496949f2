"""The search over a corpus: any engine, built into the cache at first use."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

from agentgym.data.directory import cache_directory
from agentgym.data.progress import progress_bar
from agentgym.envs.papersearch.data.corpus import PaperCorpus
from agentgym.envs.papersearch.engine.vectors import encoder_digest
from agentgym.retrieval.corpus.passages import PassageList, documents
from agentgym.retrieval.encoders import TextEncoder, open_encoder
from agentgym.retrieval.engines.bm25 import FOLDER, build_bm25
from agentgym.retrieval.engines.exact import build_exact, open_exact
from agentgym.retrieval.engines.hybrid import HybridIndex
from agentgym.retrieval.index import MANIFEST, Index
from agentgym.retrieval.opening import SearchEngine, open_or_build
from agentgym.retrieval.searcher import Searcher

VectorEngine: TypeAlias = Literal["exact", "hybrid"]
"""Engine that ranks by vectors: ``exact`` alone, ``hybrid`` fused with ``bm25``."""

PaperEngine: TypeAlias = Literal["bm25", "pyserini"] | VectorEngine

ENCODER: Final = "minilm"
"""Encoder where none is named."""


def open_search(corpus: PaperCorpus, search: str, encoder: str | None, device: str = "auto") -> Searcher:
    """Return the search over a corpus; ``encoder`` (None for `ENCODER`) and ``device`` as `open_encoder`."""
    index: Index
    if search in get_args(VectorEngine):
        index = _exact(corpus, open_encoder(ENCODER if encoder is None else encoder, device=device))
        if search == "hybrid":
            index = HybridIndex(_of_words(corpus, "bm25"), index)
    else:
        index = _of_words(corpus, search)  # type: ignore[arg-type]  # as was checked
    return Searcher(index, corpus.passages)


def _of_words(corpus: PaperCorpus, engine: SearchEngine) -> Index:
    if engine == "bm25" and isinstance(corpus.passages, PassageList):
        return build_bm25(documents(corpus.passages), corpus=_name(corpus))
    kind = FOLDER if engine == "bm25" else engine
    folder = cache_directory() / "papersearch" / f"{kind}-{corpus.passages.sha256[:16]}"
    texts = corpus.passages
    return open_or_build(
        engine, folder, lambda: documents(texts), corpus=_name(corpus), count=len(corpus), renew=True
    )


def _exact(corpus: PaperCorpus, encoder: TextEncoder) -> Index:
    made = f"exact-{encoder_digest(encoder)}-{corpus.passages.sha256[:16]}"
    folder = cache_directory() / "papersearch" / made
    if not (folder / MANIFEST).exists():
        with progress_bar(f"encoding {len(corpus):,} papers") as progress:
            build_exact(
                documents(corpus.passages),
                corpus=_name(corpus),
                folder=folder,
                encoder=encoder,
                progress=lambda done: progress(done, len(corpus)),
            )
    index = open_exact(folder, encoder=encoder)
    index.manifest.require(folder, corpus=_name(corpus))
    return index


def _name(corpus: PaperCorpus) -> str:
    return f"papersearch {corpus.passages.sha256}"
