"""Reads films as the viewer does: scripts that hand over data, packs of films, and their columns."""

import json
import zlib
from base64 import b64decode
from pathlib import Path
from typing import Any


def value_of(path: Path) -> Any:
    """Return what a data script hands over; a pack of films is opened."""
    text = path.read_text(encoding="ascii")
    value = json.loads(text[text.index(", ") + 2 : -3])
    return json.loads(zlib.decompress(b64decode(value))) if isinstance(value, str) else value


def film_of(folder: Path, number: int) -> dict[str, Any]:
    """Return a film of the run whose data are in a folder, with its tables."""
    listed = value_of(folder / "episodes.js")
    rows = [dict(zip(listed["columns"], row, strict=True)) for row in listed["episodes"]]
    (pack,) = (row["pack"] for row in rows if row["number"] == number)
    opened = value_of(folder / f"{pack}.js")
    film = opened["films"][str(number)]
    states, steps = rows_of(film["states"]), rows_of(film["steps"])
    for state in states:
        state["hash"] = opened["texts"][state["hash"]]
    tables = {name: opened[name] for name in ("texts", "nodes", "lists")}
    return {**film, **tables, "states": states, "steps": steps}


def rows_of(columns: dict[str, Any]) -> list[dict[str, Any]]:
    """Return columns as rows."""
    rows = []
    for place in range(columns["count"]):
        cells = {name: v[place if len(v) > 1 else 0] for name, v in columns.items() if name != "count"}
        rows.append({name: value for name, value in cells.items() if value is not None})
    return rows


def text_of(film: dict[str, Any], number: int) -> str:
    """Return a text of a film."""
    entry = film["texts"][number]
    return "\n".join(text_of(film, line) for line in entry) if isinstance(entry, list) else entry
