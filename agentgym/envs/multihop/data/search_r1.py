"""Search-R1's questions, which are published as Parquet, read as records of FlashRAG's form."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentgym.data.jsonstream import Watch
from agentgym.errors import UsageError
from agentgym.io.optional import load

COLUMNS = ("id", "question", "golden_answers", "data_source")
"""Columns that are read; the others hold a prompt and the reward's settings."""

_ROWS = 1_000  # in memory at a time


def read_search_r1(path: Path, watch: Watch) -> Iterator[tuple[str, Any]]:
    """Yield the records of a Parquet file, each with its place; their type is the set they come from.

    Ids are unique within such a set alone, which therefore stands before them.
    """
    parquet = load("pyarrow.parquet", "parquet", "reading Search-R1's questions", "pyarrow")
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            if missing := sorted(set(COLUMNS) - set(file.schema_arrow.names)):
                raise UsageError(f"{path} has no column {missing[0]!r}: name a file of Search-R1's questions")
            for batch in file.iter_batches(_ROWS, columns=list(COLUMNS)):
                for row in batch.to_pylist():
                    source = row.pop("data_source")
                    row |= {"id": f"{source}/{row['id']}", "metadata": {"type": source}}
                    yield f"{path}, row {number}", row
                    number += 1
                watch(path.stat().st_size * number // file.metadata.num_rows)
    except UsageError:
        raise
    except (OSError, ValueError, TypeError) as error:  # as pyarrow's errors are
        reason = " ".join(str(error).split())
        raise UsageError(f"{path} is not a complete Parquet file ({reason:.200}): get it again") from error
