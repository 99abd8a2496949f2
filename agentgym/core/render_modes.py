"""Render modes: an environment's view for people, as text or as a picture."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from agentgym.core.episodes import observed_text


class Rendered:
    """The part of `agentgym.env.AgentEnv` that shows it."""

    def render(self: Any) -> Any:
        """Return the view of a player: text (``ansi``), or a picture (``rgb_array``) of one size; else None.

        Mode ``human`` writes the text to the terminal at every reset and step. Pictures of text need Pillow
        and matplotlib, else `MissingPackageError`.
        """
        if self.render_mode is None:
            return None
        self.task  # noqa: B018 (raises before the first reset)
        if self.render_mode == "rgb_array":
            return self._picture()
        return self.shown_text() if self.render_mode == "ansi" else None

    def shown_text(self: Any) -> str:
        """Return a player's view as text: by default the observation's."""
        return observed_text(self._observe())

    def _picture(self) -> npt.NDArray[np.uint8]:
        """Return a player's view as uint8[H, W, 3]: by default the text."""
        from agentgym.core.text_image import check_packages, text_frame
        from agentgym.io.untrusted import printable

        check_packages("render_mode='rgb_array'", "render")
        return text_frame(printable(self.shown_text()))

    def _show(self) -> None:
        """Write the player's view to the terminal."""
        from agentgym.io.untrusted import printable

        sys.stdout.write(f"{printable(self.shown_text())}\n\n")
