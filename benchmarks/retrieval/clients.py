"""Let public clients search our server: ``python -m benchmarks.retrieval.clients FOLDER``.

FOLDER holds checkouts of Search-R1, verl or SkyRL, any of them at any depth. Their own functions run, taken
from their files by name, since the files import trainers that need not be installed; nothing of them is kept.
"""

from __future__ import annotations

import argparse
import ast
import json
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import requests

from agentgym.core.types import Passage
from agentgym.retrieval.searcher import search_in_memory
from agentgym.serving.retrieval.app import RetrievalService
from agentgym.serving.retrieval.server import RetrievalServer

PASSAGES = (
    Passage("1", "Analytical Engine", "A machine that Charles Babbage designed."),
    Passage("2", "Vasa", "A ship that sank in 1628.\nIt was raised in 1961."),
    Passage("3", "Kronan", "A ship that sank in 1676."),
)
QUERIES = ("which ship was raised?", "who designed the engine?")
FOUND = (("Vasa", "Kronan"), ("Analytical Engine",))
K = 2


def functions_of(path: Path, names: Sequence[str]) -> dict[str, Any]:
    """Run a file's constants and some of its functions, of classes too; return them by name."""
    taken: list[ast.stmt] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.name in names:
            node.decorator_list = []
            taken.append(node)
    constants = [
        node
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    ]
    space: dict[str, Any] = {"requests": requests, "json": json, "logger": logging.getLogger(path.stem)}
    for name in ("time", "uuid", "threading", "traceback", "typing"):
        space[name] = __import__(name)
    space.update(
        {name: getattr(space["typing"], name) for name in ("Any", "Dict", "List", "Optional", "Tuple")}
    )
    code = ast.fix_missing_locations(ast.Module([*constants, *taken], type_ignores=[]))
    exec(compile(code, str(path), "exec"), space)  # what was asked for
    return space


def ask_search_r1(path: Path, url: str) -> list[str]:
    """Return what Search-R1's agent would show its model, for each query."""
    space = functions_of(path, ("batch_search", "_batch_search", "_passages2string"))
    agent = SimpleNamespace(config=SimpleNamespace(search_url=url, topk=K))
    agent._batch_search = lambda queries: space["_batch_search"](agent, queries)
    agent._passages2string = lambda found: space["_passages2string"](agent, found)
    texts: list[str] = space["batch_search"](agent, list(QUERIES))
    return texts


def ask_verl(path: Path, url: str) -> list[str]:
    """Return what verl's search tool would show its model, for each query."""
    space = functions_of(path, ("call_search_api", "_passages2string", "perform_single_search_batch"))
    text, facts = space["perform_single_search_batch"](url, list(QUERIES), topk=K)
    assert facts["status"] == "success", facts
    texts: list[str] = json.loads(text)["result"].split("\n---\n")
    return texts


def ask_skyrl(path: Path, url: str) -> list[str]:
    """Return what SkyRL's and verl-agent's search tool would show its model, for each query."""
    space = functions_of(path, ("call_search_api", "_passages2string", "search"))
    tool = SimpleNamespace(search_url=url, topk=K, timeout=30, log_requests=False, session=requests.Session())
    with tool.session:
        return [json.loads(space["search"](tool, query))["result"] for query in QUERIES]


CLIENTS: dict[str, Callable[[Path, str], list[str]]] = {
    "search_r1/llm_agent/generation.py": ask_search_r1,
    "verl/tools/utils/search_r1_like_utils.py": ask_verl,
    "skyrl_gym/tools/search.py": ask_skyrl,
}


def main() -> int:
    """Run every client that is found; 1 where one reads anything but what was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="checkouts of Search-R1, verl or SkyRL")
    folder = parser.parse_args().folder
    service = RetrievalService(search_in_memory(PASSAGES, corpus="three passages"))
    run = failed = 0
    with RetrievalServer("127.0.0.1", 0, service) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            for name, ask in CLIENTS.items():
                for path in sorted(folder.rglob(name)):
                    texts = ask(path, f"{server.url}/retrieve")
                    whole = len(texts) == len(QUERIES) and all(
                        [title for title in titles if title not in text] == []
                        and text.count("Doc ") == len(titles)
                        for text, titles in zip(texts, FOUND, strict=False)
                    )
                    print(f"{path.relative_to(folder)}: {'reads what was found' if whole else texts!r}")
                    run, failed = run + 1, failed + (not whole)
        finally:
            server.stop()
            thread.join()
    if not run:
        print(f"there are no clients in {folder}: expected {', '.join(CLIENTS)}")
    return int(failed > 0 or not run)


if __name__ == "__main__":
    raise SystemExit(main())
