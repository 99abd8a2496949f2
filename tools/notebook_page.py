"""A notebook, executed, as a page: its words, its code, and what came out."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

TIMEOUT = 120
"""Seconds that a cell may take."""


def executed(notebook: Path) -> Any:
    """Run a notebook in its folder, with the kernel of this Python.

    Raises:
        CellExecutionError: a cell fails.
    """
    import nbformat
    from nbclient import NotebookClient

    content = nbformat.read(notebook, as_version=4)
    client = NotebookClient(
        content,
        timeout=TIMEOUT,
        kernel_name="python3",
        resources={"metadata": {"path": str(notebook.parent)}},
    )
    client.execute()
    return content


def has_outputs(notebook: Path) -> bool:
    """Return whether a notebook file holds what its cells once gave."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


def write_page(notebook: Path, page: Path) -> None:
    """Execute a notebook and write it as Markdown, its pictures beside it."""
    page.parent.mkdir(parents=True, exist_ok=True)
    parts: list[str] = []
    pictures = 0
    for cell in executed(notebook)["cells"]:
        if cell["cell_type"] == "markdown":
            parts.append(cell["source"])
            continue
        parts.append(f"```python\n{cell['source']}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                pictures += 1
                name = f"{page.stem}-{pictures}.png"
                (page.parent / name).write_bytes(base64.b64decode(data["image/png"]))
                parts.append(f"![What the cell draws]({name})")
            else:
                text = output.get("text") or data.get("text/plain", "")
                parts.append(f"```text\n{text.rstrip()}\n```")
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
