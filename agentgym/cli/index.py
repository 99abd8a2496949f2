"""``agentgym index``: corpora and their search indexes."""

from __future__ import annotations

import argparse
from pathlib import Path

from agentgym.agents.screen import printable
from agentgym.cli.commands import COMMANDS
from agentgym.cli.corpus import (
    NamedCorpus,
    add_corpora,
    add_corpus,
    add_engine,
    corpora_in_cache,
    descriptions,
    find_corpus,
    find_place,
    open_named,
    placed,
)
from agentgym.cli.download import add_index
from agentgym.cli.parser import Commands, Parser, add_command, add_groups
from agentgym.cli.terminal import open_console, say
from agentgym.data.progress import progress_bar
from agentgym.errors import UsageError

SHOWN = 160
"""Most characters of a passage's text in the output."""


def add_to(commands: Commands[Parser]) -> None:
    """Declare the commands."""
    group = add_command(commands, "index", None, about=COMMANDS["index"], example="agentgym index list")
    actions = add_groups(group)
    build = add_command(
        actions,
        "build",
        run_build,
        about="Read a corpus's passages and index them; existing parts are reused.",
        example="agentgym index build multihop-builtin --engine bm25",
    )
    add_corpus(build)
    add_engine(build)
    _add_adopt(actions)
    add_index(actions)
    info = add_command(
        actions,
        "info",
        run_info,
        about="Show the sources of a corpus and of its indexes.",
        example="agentgym index info multihop-builtin",
    )
    add_corpus(info)
    _add_query(actions)
    verify = add_command(
        actions,
        "verify",
        run_verify,
        about="Read passages and indexes again, and compare them with their records.",
        example="agentgym index verify multihop-builtin",
    )
    add_corpus(verify)
    verify.add_argument("--index", metavar="NAME", help="one index, as `info` names it (default: all)")
    verify.add_argument("--encoder", help="folder of the encoder, if the index was built with one")
    listed = add_command(
        actions,
        "list",
        run_list,
        about="List described and built corpora.",
        example="agentgym index list",
    )
    add_corpora(listed)


def _add_adopt(actions: Commands[Parser]) -> None:
    """Declare taking over."""
    adopt = add_command(
        actions,
        "adopt",
        run_adopt,
        about="Take over an index that others built, unchanged: a faiss file, or a Lucene folder.",
        example="agentgym index adopt e5_Flat.index --documents wiki-18.jsonl --encoder e5-base-v2 --name w",
    )
    adopt.add_argument("source", type=Path, metavar="INDEX", help="the file or folder; it stays where it is")
    adopt.add_argument(
        "--documents",
        type=Path,
        required=True,
        metavar="FILE",
        help="JSON lines of {id, contents} or {id, title, text}, in the order of the vectors",
    )
    adopt.add_argument("--name", required=True, help="name of the corpus: a described one, or a new name")
    add_corpora(adopt)
    adopt.add_argument(
        "--encoder", help="encoder of the vectors, such as e5-base-v2 for those of Search-R1 and FlashRAG"
    )
    adopt.add_argument(
        "--folder", type=Path, metavar="FOLDER", help="folder for manifests (default: the folder of NAME)"
    )


def _add_query(actions: Commands[Parser]) -> None:
    """Declare searching."""
    query = add_command(
        actions,
        "query",
        run_query,
        about="Search, and print the passages found.",
        example='agentgym index query multihop-builtin "who directed The Amber Quarry?" -k 5',
    )
    add_corpus(query)
    add_engine(query)
    query.add_argument("queries", nargs="+", metavar="QUERY", help="what to search for")
    query.add_argument("-k", type=int, default=5, help="passages for each query (default: 5)")


def run_build(arguments: argparse.Namespace) -> int:
    """Build a corpus and an index over it."""
    corpus, searcher = open_named(arguments, build=True)
    _say_deviations(corpus)
    manifest = searcher.index.manifest
    say(f"{len(searcher.store):,} passages, indexed by {manifest.engine}, in {corpus.folder}")
    return 0


def run_adopt(arguments: argparse.Namespace) -> int:
    """Take over an index."""
    from agentgym.retrieval.adopt import adopt_index

    if Path(arguments.name).name != arguments.name:
        raise UsageError(f"the name {arguments.name!r} is not the name of a folder")
    place = find_place(arguments.name, arguments.corpora)
    folder, named = arguments.folder or place.folder, place.spec.name if place.spec else arguments.name
    for path in (arguments.source, arguments.documents):
        if not path.exists():
            raise UsageError(f"there is nothing at {path}: name the index and its documents")
    searcher = adopt_index(
        arguments.source, folder, corpus=named, published=arguments.documents, encoder=arguments.encoder
    )
    manifest = searcher.index.manifest
    found = arguments.folder or arguments.name
    say(f"{len(searcher.store):,} passages, ranked by {manifest.engine}: see `agentgym index info {found}`")
    return 0


def run_info(arguments: argparse.Namespace) -> int:
    """Print records and manifests."""
    from agentgym.retrieval.index import Manifest

    corpus = _corpus(arguments)
    rows: list[tuple[str, object]] = []
    if corpus.spec is not None:
        names = ("name", "about", "source", "licence", "reader", "rule")
        rows += [(name, getattr(corpus.spec, name)) for name in names]
    rows.append(("folder", corpus.folder))
    if corpus.is_built:
        store = corpus.store()
        rows += [("passages", f"{len(store):,}"), ("sha256", store.sha256)]
    else:
        rows.append(("passages", "not built: run `agentgym index build`"))
    if (built := corpus.built) is not None:
        rows += [(file.path, f"sha256 {file.sha256}") for file in built.files]
    for engine in corpus.indexes:
        manifest = Manifest.read(corpus.folder / engine)
        rows += [
            (f"index {engine}", f"{manifest.engine} {manifest.analyser}".strip()),
            ("  standing", manifest.standing),
            ("  fingerprint", manifest.fingerprint),
            *((f"  {name}", value) for name, value in manifest.parameters.items()),
            *((f"  {name}", value) for name, value in manifest.text_parameters.items()),
            *((f"  {name}", version) for name, version in manifest.libraries.items()),
        ]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        say(f"{name:<{width}}  {printable(str(value))}")
    _say_deviations(corpus)
    return 0


def run_query(arguments: argparse.Namespace) -> int:
    """Print the passages that a query finds."""
    if arguments.k < 1:
        raise UsageError(f"a search returns one passage at least: ask for -k 1 or more, not {arguments.k}")
    _, searcher = open_named(arguments)
    found = searcher.hits(arguments.queries, min(arguments.k, len(searcher.store)))
    for query, hits in zip(arguments.queries, found, strict=True):
        if len(arguments.queries) > 1:
            say(f"{printable(query)}:")
        if not len(hits.documents):
            say("nothing is found")
        numbers, scores = hits.documents.tolist(), hits.scores.tolist()
        for rank, (number, score) in enumerate(zip(numbers, scores, strict=True), start=1):
            passage = searcher.store[number]
            text = " ".join(passage.text.split())
            cut = text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
            say(printable(f"{rank:>3}  {score:>8.3f}  {passage.id}  {passage.title}"))
            say(printable(f"               {cut}"))
    return 0


def run_verify(arguments: argparse.Namespace) -> int:
    """Verify a corpus and its indexes; 1 when something is wrong."""
    from agentgym.cli.indexcheck import index_problems

    corpus = _corpus(arguments)
    store = corpus.store()
    names = corpus.indexes if arguments.index is None else [arguments.index]
    console = open_console()
    sound = True
    with progress_bar(f"verifying {corpus.folder}") as progress:
        found: list[tuple[str, list[str]]] = []
        try:
            store.verify()
            corpus.check(store)
            found.append(("passages", []))
        except UsageError as error:
            found.append(("passages", [str(error)]))
        for done, name in enumerate(names, start=1):
            progress(done, len(names) + 1)
            found.append((name, list(index_problems(corpus.folder / name, store, arguments.encoder))))
    for name, problems in found:
        for problem in problems:
            console.print(f"{name}: {printable(problem)}", style="red", markup=False, soft_wrap=True)
        if not problems:
            console.print(f"{name}: as it should be", style="green", markup=False, soft_wrap=True)
        sound = sound and not problems
    _say_deviations(corpus)
    return 0 if sound else 1


def run_list(arguments: argparse.Namespace) -> int:
    """Print one row per corpus."""
    from rich.filesize import decimal
    from rich.table import Table

    table = Table("corpus", "passages", "size", "indexes", box=None, pad_edge=False)
    table.columns[0].overflow = table.columns[3].overflow = "fold"
    table.columns[1].justify = table.columns[2].justify = "right"
    described = [(spec, placed(spec)) for spec in descriptions(arguments.corpora)]
    seen = {corpus.folder for _, corpus in described}
    rows = [
        (spec.name, f"({spec.passages:,})" if spec.passages else "(any)", each) for spec, each in described
    ]
    rows += [(each.folder.name, "", each) for each in corpora_in_cache() if each.folder not in seen]
    for name, expected, corpus in rows:
        files = [file for file in corpus.folder.rglob("*") if file.is_file()] if corpus.is_built else []
        table.add_row(
            name,
            f"{len(corpus.store()):,}" if corpus.is_built else expected,
            decimal(sum(file.stat().st_size for file in files)) if files else "",
            ", ".join(corpus.indexes) or ("none" if corpus.is_built else "not built"),
        )
    open_console(80).print(table, markup=False)
    say("a number in brackets is expected; `agentgym index info CORPUS` tells more")
    return 0


def _corpus(arguments: argparse.Namespace) -> NamedCorpus:
    return find_corpus(arguments.corpus, arguments.corpora, arguments.folder)


def _say_deviations(corpus: NamedCorpus) -> None:
    """Report differences from the corpus's description."""
    built = corpus.built
    for deviation in built.deviations if built is not None else ():
        line = f"{corpus.folder.name}: {printable(deviation)}"
        open_console().print(line, style="yellow", markup=False, soft_wrap=True)
