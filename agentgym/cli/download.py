"""``agentgym data download`` and ``agentgym index download``: official files, fetched and checked."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.agents.screen import printable
from agentgym.cli.corpus import NamedCorpus, add_corpora, build_passages, find_corpus, open_named
from agentgym.cli.parser import Commands, Parser, add_command, add_mirror
from agentgym.cli.terminal import say
from agentgym.core.suite_spec import DataSource
from agentgym.data.download import Result, download, place, sizes_in
from agentgym.data.fetching import Fetcher, find_copies
from agentgym.data.importing import (
    check_target,
    find_damage,
    import_data,
    importer_of,
    is_present,
    read_manifest,
)
from agentgym.data.progress import progress_bar
from agentgym.data.sources import SourceSet, download_of, source_list
from agentgym.errors import UsageError
from agentgym.interrupts import Interrupt
from agentgym.io.paths import data_directory
from agentgym.registration import class_of, data_source
from agentgym.retrieval.corpus.corpora import find_files
from agentgym.retrieval.opening import engine_of

if TYPE_CHECKING:
    from agentgym.evaluation.suites.suite import Suite


def add_data(actions: Commands[Parser]) -> None:
    """Declare downloading data."""
    about = "Fetch official data, check it and import it; a stopped download continues."
    example = "agentgym data download webshop-small"
    parser = add_command(actions, "download", run_data, about=about, example=example)
    _add_ways(parser, "as `agentgym data list` names it", "agentgym data import NAME FOLDER")


def add_index(actions: Commands[Parser]) -> None:
    """Declare downloading corpora and indexes."""
    about = "Fetch a published corpus, or an index with its corpus, check it and make it ready to search."
    example = "agentgym index download wiki-18-e5"
    parser = add_command(actions, "download", run_index, about=about, example=example)
    known = ", ".join(name for name, found in source_list().set.items() if found.corpus)
    _add_ways(parser, known, "agentgym index download NAME --mirror FOLDER --only-mirror")
    add_corpora(parser)


def _add_ways(parser: Parser, known: str, brought: str) -> None:
    listed = f"print an address a line, for `wget -i` or `aria2c -i` elsewhere; `{brought}` imports the files"
    parser.add_argument("names", nargs="+", metavar="NAME", help=f"data set to fetch: {known}")
    add_mirror(parser)
    parser.add_argument("--keep", action="store_true", help="leave the fetched files in the cache")
    parser.add_argument("--print-urls", action="store_true", help=listed)


def run_data(arguments: argparse.Namespace) -> int:
    """Download data sets."""
    return _run(arguments, download_data, corpora=False)


def run_index(arguments: argparse.Namespace) -> int:
    """Download corpora and indexes."""
    from agentgym.retrieval import adopt

    known = source_list().set
    for name in () if arguments.print_urls else arguments.names:
        if name in known and known[name].adopt:  # an index of 65 GB is not fetched to be of no use
            adopt.check_ready(known[name].encoder)
    return _run(arguments, _download_corpus, corpora=True)


def _run(
    arguments: argparse.Namespace, bring: Callable[[str, argparse.Namespace], None], *, corpora: bool
) -> int:
    """Bring the named sets and those that they need, or print the first address of each file."""
    sets = {name: source_list().named(name, corpora=corpora) for name in arguments.names}
    fetcher = Fetcher(mirror=arguments.mirror, only_mirror=arguments.only_mirror)
    for name in dict.fromkeys(each for one, found in sets.items() for each in (*found.needs, one)):
        if not arguments.print_urls:
            bring(name, arguments)
            continue
        for file in source_list().files(name):
            for url in fetcher.addresses(name, file)[: int(not file.option)]:
                say(url)
    return 0


def _download_corpus(name: str, ways: argparse.Namespace) -> None:
    """Bring a corpus or an index, and make it ready to search if it was asked for by name."""
    found = source_list().set[name]
    target = data_directory() / found.folder
    _bring(name, ways, lambda copy: place(copy, target), lambda: sizes_in(target))
    if name not in ways.names:
        return
    corpus = find_corpus(found.corpus, ways.corpora)
    if found.built:
        chosen = {"corpus": found.corpus, "corpora": ways.corpora, "folder": None, "option": []}
        open_named(argparse.Namespace(**chosen, engine=None, encoder=None, device="auto"), build=True)
    elif not found.adopt:
        build_passages(corpus)
    elif corpus.spec is not None and not _is_adopted(found, corpus):
        from agentgym.retrieval.adopt import adopt_index

        adopt_index(
            target / found.adopt,
            corpus.folder,
            corpus=corpus.spec.name,
            published=find_files(corpus.spec, data_directory())[0],
            encoder=found.encoder,
        )
    say(f"{name}: {len(corpus.store()):,} passages in {corpus.folder}")


def _is_adopted(found: SourceSet, corpus: NamedCorpus) -> bool:
    engine = "faiss" if found.encoder else "pyserini"
    return any(engine_of(name.partition("-")[0]) == engine for name in corpus.indexes)


def download_data(name: str, ways: argparse.Namespace) -> None:
    """Bring a data set to this machine, and say what is here; ``ways`` are the command's flags."""
    found = source_list().set[name]
    source = data_source(found.source)

    def finish(copy: Path) -> Result:
        with progress_bar(f"importing {source.name}") as progress:
            entries = import_data(source, copy, progress=progress)
        with progress_bar(f"verifying {source.name}") as progress:
            for problem in find_damage(source, progress=progress):
                raise UsageError(f"{source.name}: {problem}: run the same command again")
        return {key: entry.sha256 for key, entry in entries.items()}

    state = "imported and verified" if _bring(name, ways, finish, lambda: imported(source)) else "is here"
    say(f"{name}: {state}, in {data_directory() / source.folder} ({found.licence})")
    if found.note:
        say(f"{name}: {found.note}")


def holds_fetched(name: str, folder: Path) -> bool:
    """Return whether a folder holds the files of a set as they are published, and not a copy to import."""
    found = source_list().set.get(name)
    if found is None or not found.source or not folder.is_dir():
        return False
    files = [file for file in source_list().files(name) if not file.option]
    source = data_source(found.source)
    copies = sum(1 for _ in importer_of(source).find_files(folder))
    return (name != source.name or copies < len(files)) and all(
        find_copies(folder, name, file) for file in files
    )


def imported(source: DataSource) -> Result:
    """Return the sha256 of a source's whole files by name; UsageError where they were not imported."""
    if not (folder := check_target(source)).exists():
        return {}
    sizes, entries = sizes_in(folder), read_manifest(source) or {}
    return {key: entry.sha256 for key, entry in entries.items() if sizes.get(key) == entry.size}


def download_for(suite: Suite, labels: Sequence[str]) -> None:
    """Bring the missing data of a suite's environments: those of ``labels``, or all."""
    for env in suite.env:
        sources = class_of(env.id).suite_spec.sources if env.label in labels or not labels else ()
        head, _, part = str(env.kwargs.get("dataset", "")).rpartition("/")
        for source in sources:
            if (head or sources[0].name) == source.name and part in source.sets:
                name = download_of(source, part)
                if name and not is_present(source, part):
                    download_data(name, argparse.Namespace(mirror="", only_mirror=False, keep=False))


def _bring(
    name: str, ways: argparse.Namespace, finish: Callable[[Path], Result], present: Callable[[], Result]
) -> bool:
    """Download a set; Ctrl-C says what stays."""
    present()  # a folder that was filled by hand is refused before anything is fetched
    fetcher = Fetcher(
        mirror=ways.mirror,
        only_mirror=ways.only_mirror,
        say=lambda line: sys.stderr.write(f"{printable(line)}\n"),  # a bar puts it above itself
    )
    try:
        return download(name, fetcher, finish, present, keep=ways.keep)
    except KeyboardInterrupt:
        raise Interrupt(": fetched files stay, and the same command continues from there") from None
