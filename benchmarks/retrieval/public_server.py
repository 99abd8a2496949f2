"""The public single-query retrieval server, rebuilt: what verl-agent and SkyRL run beside their trainers.

Its endpoint is an ordinary function, which FastAPI calls in a pool of threads. Each request is encoded alone
by transformers (mean pooling, unit length), searched for alone in a flat faiss index, and answered with the
documents of a list.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from transformers import AutoModel, AutoTokenizer

from agentgym.retrieval.corpus.passages import PassageFile


class Query(BaseModel):
    """What a client sends."""

    query: str
    topk: int | None = None
    return_scores: bool = False


class DenseSearch:
    """Encodes and searches one query at a time."""

    def __init__(self, model: Path, vectors: Path, passages: Path):
        """Load everything into memory."""
        self._tokenizer: Any = AutoTokenizer.from_pretrained(model)
        self._model: Any = AutoModel.from_pretrained(model).eval()
        width = self._model.config.hidden_size
        stored = np.fromfile(vectors, np.float16).reshape(-1, width).astype(np.float32)
        self._index = faiss.IndexFlatIP(stored.shape[1])
        self._index.add(stored)
        self._documents = [{"id": one.id, "contents": one.contents} for one in PassageFile(passages)]

    def search(self, query: str, k: int) -> list[tuple[dict[str, str], float]]:
        """Return the best ``k`` documents with their scores."""
        scores, numbers = self._index.search(self._encode(query), k)
        return [
            (self._documents[number % len(self._documents)], float(score))
            for number, score in zip(numbers[0].tolist(), scores[0].tolist(), strict=True)
        ]

    def _encode(self, query: str) -> Any:
        given = self._tokenizer([query], max_length=256, padding=True, truncation=True, return_tensors="pt")
        with torch.no_grad():
            hidden = self._model(**given).last_hidden_state
            mask = given["attention_mask"][..., None]
            mean = (hidden * mask).sum(dim=1) / mask.sum(dim=1)
            return torch.nn.functional.normalize(mean, dim=-1).numpy()


def make_public_app(search: DenseSearch) -> FastAPI:
    """Return the application."""
    app = FastAPI()

    def retrieve(request: Query) -> dict[str, Any]:
        found = search.search(request.query, request.topk or 3)
        if request.return_scores:
            return {"result": [[{"document": document, "score": score} for document, score in found]]}
        return {"result": [[document for document, _ in found]]}

    retrieve.__annotations__["request"] = Query  # a name of this module, which FastAPI looks up
    app.post("/retrieve")(retrieve)
    return app


def serve(model: Path, vectors: Path, passages: Path, port: int) -> None:
    """Serve until the process ends."""
    app = make_public_app(DenseSearch(model, vectors, passages))
    listener = socket.create_server(("127.0.0.1", port), backlog=2_048)
    config = uvicorn.Config(app, log_level="error", access_log=False)
    uvicorn.Server(config).run(sockets=[listener])
