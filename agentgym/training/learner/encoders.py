"""Encoders of observations, for ``match="embedding"``: the policy itself, or a sentence encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

from agentgym.algos.batch import StepBatch
from agentgym.core.arrays import Floats
from agentgym.inference.models.language_model import LanguageModel
from agentgym.retrieval.encoders import TextEncoder, open_encoder
from agentgym.training.learner.packing import StepRow
from agentgym.training.learner.update import Learner

POLICY: Final = "policy"
"""Name of the policy as the encoder of its own observations."""

MAX_CACHED_TEXTS = 16_384
"""Most texts whose vectors a `SentenceEncoder` caches: 25 MB with 384 numbers each."""


class ObservationEncoder(Protocol):
    """Makes observations vectors."""

    def embed(self, texts: Sequence[str]) -> Floats:
        """Return a vector for each of n different texts, (n, d); all ranks have to ask."""


class PolicyEncoder:
    """The policy as it is now: its last hidden state at the last token of the observation, read alone.

    The text stands in no prompt: neither instructions nor history tell two equal observations apart. Decoders
    map all texts into a narrow cone, so that even unlike ones have cosines above .9 (figures are in
    `docs/training_options.md`); what they share is taken off: a vector is the difference to the mean over the
    batch's texts.
    """

    def __init__(self, learner: Learner, language_model: LanguageModel):
        """Bind the model that learns, and its tokenizer."""
        self._learner = learner
        self._chat = language_model.chat
        self._longest = int(language_model.model.config.get_text_config().max_position_embeddings)

    def embed(self, texts: Sequence[str]) -> Floats:
        """Return (n, d) hidden states less the mean of more than two; the ends of long texts count."""
        rows = [StepRow(tuple(self._tokens(text)), ()) for text in texts]
        states = self._learner.embeddings(rows)
        centred: Floats = states - states.mean(axis=0)
        distinct = len(rows) > 2 and bool((np.abs(centred).max(axis=1) > 0).all())
        return centred if distinct else states

    def _tokens(self, text: str) -> list[int]:
        tokens = self._chat.encode(text) or self._chat.encode(" ")
        return tokens[-self._longest :]


class SentenceEncoder:
    """An encoder of `agentgym.retrieval.encoders`, whose vectors never change: each text is read once."""

    def __init__(self, encoder: TextEncoder):
        """Bind an encoder."""
        self._encoder = encoder
        self._cache: dict[str, Floats] = {}

    def embed(self, texts: Sequence[str]) -> Floats:
        """Return (n, d) vectors, of texts as passages."""
        new = [text for text in texts if text not in self._cache]
        if new:
            vectors = self._encoder.encode_passages(new).astype(np.float64)
            self._cache |= dict(zip(new, vectors, strict=True))
        found = np.array([self._cache[text] for text in texts])
        while len(self._cache) > MAX_CACHED_TEXTS:
            del self._cache[next(iter(self._cache))]  # evicts the oldest
        return found


def open_observation_encoder(
    name: str, learner: Learner, language_model: LanguageModel, device: str = "auto"
) -> ObservationEncoder | None:
    """Return the encoder that a configuration names: ``policy``, or one of `agentgym.retrieval.encoders`.

    None where the name is empty.
    """
    if not name:
        return None
    if name == POLICY:
        return PolicyEncoder(learner, language_model)
    return SentenceEncoder(open_encoder(name, device=device))


def with_embeddings(steps: StepBatch, encoder: ObservationEncoder | None) -> StepBatch:
    """Return steps with their observations' embeddings, where there is an encoder.

    Each distinct text is embedded once.
    """
    if encoder is None or not steps.texts:
        return steps
    place: dict[str, int] = {}
    rows = [place.setdefault(text, len(place)) for text in steps.texts]
    return steps.with_columns(embeddings=encoder.embed(list(place))[rows])
