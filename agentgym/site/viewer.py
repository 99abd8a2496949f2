"""The viewer: the page that plays episodes, and the films that it loads."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.site.films import RunFilms, write_index, write_run
from agentgym.site.rendering import render
from agentgym.site.training_films import keeps_rollouts, write_training

if TYPE_CHECKING:
    from rich.console import Console

PAGE = "view.html"


def write_viewer(
    out: Path,
    runs: Iterable[Path],
    training: Iterable[Path] = (),
    *,
    most: int | None = None,
    allow: Collection[str] = (),
    console: Console | None = None,
) -> list[RunFilms]:
    """Write the viewer's page and the films of runs; return what was written, in the order given.

    Args:
        out: folder of the site.
        runs: folders of runs, or packed ones.
        training: folders of training runs; those that kept no rollouts are passed over.
        most: films of each environment of a run; None for all.
        allow: references ``module:name`` in runs that may be imported.
        console: where progress is shown; None for nowhere.

    Raises:
        UsageError: a run is unreadable.
        MissingDataError: the data of an environment is not on this machine.
    """
    films = [write_run(out, folder, most=most, allow=allow, console=console) for folder in runs]
    films += [write_training(out, folder) for folder in training if keeps_rollouts(folder)]
    write_index(out, films)
    (out / PAGE).write_text(render(PAGE, "Episodes"), encoding="utf-8", newline="\n")
    return films
