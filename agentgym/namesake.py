"""The check for the package index's other ``agentgym``, which installs into the folder of the same name."""

from __future__ import annotations

import os
from pathlib import Path


def refuse_namesake(package: Path) -> None:
    """Raise an ImportError if the distribution ``agentgym``, another project, shares a package's folder.

    The later installation overwrites files of the first, so nothing in the folder can be trusted. The names
    beside the package are enough: no metadata is read.
    """
    for name in os.listdir(package.parent):
        if name.startswith("agentgym-") and name.endswith((".dist-info", ".egg-info")):
            other = name.rpartition(".")[0]
            raise ImportError(
                f"{other} of the package index is another project, installed into the same folder {package}: "
                "run `pip uninstall agentgym`, then reinstall agentgym-suite"
            )
