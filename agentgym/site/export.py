"""One recorded episode as one file: a page that needs nothing else, an animated picture, or a still one."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Collection
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path
from typing import Any

from agentgym.agents.screen import printable
from agentgym.core.text_image import check_packages
from agentgym.errors import UsageError
from agentgym.evaluation.log.frames import ReplayedFrames, frames
from agentgym.evaluation.log.redaction import Redactor
from agentgym.evaluation.log.results import EvalLog, EvalSample
from agentgym.evaluation.verify.archives import open_run
from agentgym.io.files import replace_file
from agentgym.io.optional import load, only_trusted
from agentgym.site.filmdata import ViewerTables
from agentgym.site.pictures import EpisodePictures, suffixes
from agentgym.site.rendering import data_script, render
from agentgym.site.viewer_data import KEY_DIGITS, EpisodePlayer, viewer_script

ENDINGS = (".html", ".gif", ".png")

_STYLES = ("site.css", "view.css")
_SCRIPTS = ("site.js", "view-film.js", "view-step.js", "view-graph.js")
_LAST = "view.js"


def export_episode(
    path: Path,
    name: str,
    out: Path,
    *,
    step: int | None = None,
    regret: bool = False,
    allow: Collection[str] = (),
) -> int | None:
    """Write an episode as ``.html``, ``.gif`` or ``.png``; return the step at which the replay departs.

    None where it does not depart. A page holds its own scripts and data; a picture is one step or, without
    ``step``, a sheet of some. ``path``: of the run, a packed one, or an archive; ``name`` as `find_episode`
    takes it; ``regret``, for pages alone, as `EpisodeView.play`; ``allow`` as `verify_run`.
    """
    if out.suffix.lower() not in ENDINGS:
        raise UsageError(f"--export writes {suffixes(ENDINGS)}, got {out.name!r:.80}")
    if regret and out.suffix.lower() != ".html":
        raise UsageError(f"--regret is shown on a page: --export {out.stem}.html")
    with only_trusted(allow), ExitStack() as stack:
        run = open_run(path, allow=allow)
        _, episode = run.sample(name)
        if step is not None and not 0 <= step <= episode.length:
            raise UsageError(f"the episode has steps 0 to {episode.length}: choose one, not {step}")
        player = EpisodePlayer(run, stack, regret=regret)
        if out.suffix.lower() == ".html":
            text, differs = _page(run.log, player, episode, run.samples.index(episode) + 1)
            replace_file(out, text)
            return differs
        check_packages("--export")
        drawn, differs = _drawn(player, episode, f"{run.log.agent.display_name}, {episode.env}")
        if out.suffix.lower() == ".gif":
            data = drawn.film()
        else:
            data = drawn.sheet() if step is None else drawn.one(min(step, drawn.count - 1))
        out.write_bytes(data)
        return differs


def _page(run: EvalLog, player: EpisodePlayer, episode: EvalSample, number: int) -> tuple[str, int | None]:
    """Return a page whose policy allows its own scripts and styles by their sha256, and nothing else."""
    markup = load("markupsafe", "site", "--export").Markup
    tables = ViewerTables(Redactor().redact)
    film, summary = player.film(episode, number, tables)
    key = run.request_id[:KEY_DIGITS]
    static = files("agentgym.site").joinpath("static")
    about: Any = {"run": {"key": key, "title": run.agent.display_name, "suite": run.suite.name}}
    scripts = [static.joinpath(name).read_text(encoding="utf-8") for name in _SCRIPTS]
    scripts.append(data_script("alone", {**about, "number": number}))
    scripts.append(viewer_script(key, 1, {number: film}, tables))
    scripts.append(static.joinpath(_LAST).read_text(encoding="utf-8"))
    styles = [static.joinpath(name).read_text(encoding="utf-8") for name in _STYLES]
    policy = (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    text = render(
        "episode.html",
        "",
        alone_policy=policy,
        heading=f"{run.agent.display_name}: {episode.env}",
        styles=[markup(text) for text in styles],
        scripts=[markup(text) for text in scripts],
    )
    return text, summary.differs_at


def _hashes(texts: list[str]) -> str:
    return " ".join(
        f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in texts
    )


def _drawn(player: EpisodePlayer, episode: EvalSample, title: str) -> tuple[EpisodePictures, int | None]:
    """Return the pictures of an episode, up to where its replay departs from the record."""
    game, env = player.games.of(episode.env)
    drawn = EpisodePictures(game, printable(title), episode.length)
    played = ReplayedFrames(frames(game, env, episode), episode.hash_chain)
    for turn, frame in enumerate(played):
        drawn.add(frame, episode.actions[turn] if turn < episode.length else None)
    return drawn, played.differs_at
