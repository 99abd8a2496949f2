"""Pictures of observations, as vision-language models read them: patches, their tokens, their positions.

A model of the form of Qwen2-VL has an encoder of pictures in front of its language model. Its processor cuts
a picture into patches; in the token ids a picture token stands for each group of patches, and the encoder's
features take their place. Positions have three components (time, height, width), which differ
within a picture only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agentgym.core.arrays import Ints
from agentgym.core.types import Observation
from agentgym.errors import UsageError

KEPT = 4096
"""Most pictures that a reader caches."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture as a model reads it.

    Two of them are equal where their pixels are.
    """

    sha256: str
    """sha256 of the pixels and their shape."""
    patches: Tensor = field(compare=False, repr=False)
    """Patches (p, d) float32."""
    grid: tuple[int, int, int] = field(compare=False)
    """Patches along time, height and width."""
    tokens: int = field(compare=False)
    """Number of picture tokens that stand for it."""


@dataclass(frozen=True, slots=True)
class PicturePrompt:
    """The pictures of a prompt, and the positions of its tokens."""

    pictures: tuple[Picture, ...]
    starts: tuple[int, ...]
    """Index of the first token of each picture."""
    positions: Ints
    """Positions (3, P) of the tokens."""

    def after(self, place: int) -> list[Picture]:
        """Return the pictures that begin at a place of the prompt or later."""
        return [picture for picture, start in zip(self.pictures, self.starts, strict=True) if start >= place]

    @property
    def following(self) -> int:
        """Position of the token after the prompt."""
        return int(self.positions.max()) + 1


class PictureReader:
    """Converter of pixels into a vision-language model's patches and tokens."""

    def __init__(self, model: Any, processor: Any):
        """Bind a model of the form of Qwen2-VL and the image processor it was made with."""
        config = model.config
        names = ("image_token_id", "vision_start_token_id", "vision_end_token_id")
        if any(not hasattr(config, name) for name in names) or not hasattr(
            model.base_model, "get_rope_index"
        ):
            raise UsageError(
                f"pictures are read by models of the form of Qwen2-VL, not by {config.model_type!r}: choose "
                "one, or set prompting.pictures to 'none'"
            )
        self.processor = processor
        self.image_token = int(config.image_token_id)
        self._around = (int(config.vision_start_token_id), int(config.vision_end_token_id))
        self._rope = model.base_model.get_rope_index
        self._read: dict[str, Picture] = {}

    def read(self, pixels: Any) -> Picture:
        """Return a picture of uint8[H, W, 3]."""
        array = np.ascontiguousarray(pixels, dtype=np.uint8)
        key = hashlib.sha256(repr(array.shape).encode() + array.tobytes()).hexdigest()
        if key not in self._read:
            if len(self._read) >= KEPT:
                self._read.clear()
            cut = self.processor(images=[array], return_tensors="pt")
            time, height, width = cut["image_grid_thw"][0].tolist()
            tokens = time * height * width // self.processor.merge_size**2
            self._read[key] = Picture(key, cut["pixel_values"].float(), (time, height, width), tokens)
        return self._read[key]

    def of(self, observation: Observation) -> Picture | None:
        """Return the picture of an observation; None where it has none."""
        if isinstance(observation, str) or "image" not in observation:
            return None
        return self.read(observation["image"])

    def tokens_of(self, picture: Picture) -> list[int]:
        """Return the token ids of a picture."""
        begin, end = self._around
        return [begin, *[self.image_token] * picture.tokens, end]

    def prompt(self, ids: Sequence[int], pictures: tuple[Picture, ...]) -> PicturePrompt:
        """Return the positions of a prompt's tokens; picture tokens must be those of the pictures."""
        tokens = torch.tensor([list(ids)])
        kinds = (tokens == self.image_token).int()
        if int(kinds.sum()) != sum(picture.tokens for picture in pictures):
            raise UsageError(
                f"a prompt holds {int(kinds.sum())} picture tokens, its {len(pictures)} pictures "
                f"need {sum(picture.tokens for picture in pictures)}: give the pictures it was made with"
            )
        grids = torch.tensor([picture.grid for picture in pictures])
        positions, _ = self._rope(tokens, mm_token_type_ids=kinds, image_grid_thw=grids)
        held = np.flatnonzero(kinds[0].numpy())
        firsts = np.cumsum([0, *(picture.tokens for picture in pictures[:-1])])
        return PicturePrompt(pictures, tuple(held[firsts].tolist()), positions[:, 0].numpy())


def embedded(body: Any, ids: Tensor, pictures: Sequence[Picture]) -> Tensor:
    """Return the embeddings of tokens (n, w), with the encoder's features in the place of picture tokens.

    ``body`` is the part below the head; pictures come in the order in which their tokens lie.
    """
    embeddings: Tensor = body.get_input_embeddings()(ids)
    patches = torch.cat([picture.patches for picture in pictures]).to(ids.device)
    grids = torch.tensor([picture.grid for picture in pictures], device=ids.device)
    features = torch.cat(body.get_image_features(patches, grids, return_dict=True).pooler_output)
    held = (ids == body.config.image_token_id).unsqueeze(-1)
    return embeddings.masked_scatter(held, features.to(embeddings.dtype))
