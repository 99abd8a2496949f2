"""Language-model selector: "Decision: True or False?".

Its form is that of PaSa's selector (He et al. 2025): the probability of "True" as the next token after a
prompt that ends with "Decision:". Prompts run one by one, since a model's numbers depend on what is padded
beside them, and an answer must not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from agentgym.core.queries import AnswerKind
from agentgym.envs.papersearch.data.corpus import PaperCorpus
from agentgym.envs.papersearch.topics import Topic
from agentgym.errors import UsageError
from agentgym.io.optional import load

TOLERANCE: Final = 0.02
"""How far probabilities of one model lie apart on two machines at most, in the precision of its weights."""

ABSTRACT_WORDS: Final = 400

TRUE: Final = " True"

PROMPT: Final = """\
Judge whether a paper answers a query in full.

Query: {query}

Paper: {title}
{abstract}

Answer with "Decision: True" or "Decision: False", then give the reason.
Decision:"""
"""With the slots ``query``, ``title`` and ``abstract``. Give a model the one that it was trained with."""

_PINNED = ("*.safetensors", "*.bin", "config.json", "tokenizer*", "vocab*", "merges.txt")


class Judge(Protocol):
    """Probability that a model continues with "True"."""

    @property
    def name(self) -> str:
        """With what pins it, such as the sha256 of its weights."""
        ...

    def probabilities(self, prompts: Sequence[str]) -> Sequence[float]:
        """Return the probability of `TRUE` after each prompt; of each alone."""
        ...


class DecisionSelector:
    """Scores papers by a `Judge`, which caches its answers."""

    def __init__(self, corpus: PaperCorpus, judge: Judge, prompt: str = PROMPT):
        """Ask a judge.

        Args:
            corpus: of the papers.
            judge: is asked.
            prompt: with the slots of `PROMPT`.

        Raises:
            UsageError: the prompt has other slots, or lacks one.
        """
        slots = {"query": "", "title": "", "abstract": ""}
        try:
            prompt.format(**slots)
            complete = all("{" + slot + "}" in prompt for slot in slots)
        except (KeyError, IndexError, ValueError):
            complete = False
        if not complete:
            raise UsageError(
                "the selector's prompt has the slots {query}, {title} and {abstract}, and no others"
            )
        self._corpus = corpus
        self._judge = judge
        self._prompt = prompt
        pinned = hashlib.sha256(prompt.encode()).hexdigest()[:8]
        self.kind = AnswerKind(f"selector {judge.name} {pinned}", "recomputable", tolerance=TOLERANCE)

    def question(self, topic: Topic, number: int) -> tuple[str, int]:
        """Return the query and the paper's number."""
        return topic.query, number

    def answer(self, questions: Sequence[Any]) -> list[float]:
        """Query the judge once, with each repeated question once."""
        distinct = list(dict.fromkeys(map(tuple, questions)))
        said = self._judge.probabilities([self._text(query, number) for query, number in distinct])
        answers = dict(zip(distinct, map(float, said), strict=True))
        return [answers[tuple(question)] for question in questions]

    def _text(self, query: str, number: int) -> str:
        paper = self._corpus.paper(number)
        abstract = " ".join(paper.text.split()[:ABSTRACT_WORDS])
        return self._prompt.format(query=query, title=paper.title, abstract=abstract)

    def agrees(self, said: Any, computed: Any) -> bool:
        """Return whether both are numbers within the tolerance."""
        return type(said) is float and abs(said - computed) <= self.kind.tolerance


class LocalJudge:
    """A causal language model of a folder, through transformers."""

    def __init__(self, folder: Path):
        """Load model and tokenizer, onto a GPU where there is one.

        Args:
            folder: in the form of Hugging Face's hub.

        Raises:
            UsageError: there is no such folder, or it holds no model.
            MissingPackageError: torch or transformers is not installed.
        """
        if not (folder / "config.json").is_file():
            raise UsageError(f"no model in {folder}: name a folder with config.json, weights and tokenizer")
        self._torch = load("torch", "train", "a model as selector")
        transformers = load("transformers", "train", "a model as selector")
        try:
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
            model = transformers.AutoModelForCausalLM.from_pretrained(
                folder, local_files_only=True, dtype="auto"
            )
        except (OSError, ValueError, KeyError) as error:
            reason = str(error).partition("\n")[0]
            raise UsageError(f"no model can be loaded from {folder}: {reason:.200}") from error
        self._device = "cuda" if self._torch.cuda.is_available() else "cpu"
        self._model = model.to(self._device).eval()
        self.name = f"model {_digest(folder)}"

    def probabilities(self, prompts: Sequence[str]) -> list[float]:
        """Return the probability of `TRUE` after each prompt; of each alone."""
        return [self._probability(prompt) for prompt in prompts]

    def _probability(self, prompt: str) -> float:
        ids, longer = (self._tokenizer(text)["input_ids"] for text in (prompt, prompt + TRUE))
        place = next((i for i, (a, b) in enumerate(zip(ids, longer, strict=False)) if a != b), len(ids))
        with self._torch.inference_mode():
            tokens = self._torch.tensor([longer[:place]], device=self._device)
            logits = self._model(input_ids=tokens).logits[0, -1].float()
        return float(logits.softmax(-1)[longer[place]])


def _digest(folder: Path) -> str:
    """Return 16 hex digits over weights, configuration and tokenizer."""
    digest = hashlib.sha256()
    for path in sorted({path for pattern in _PINNED for path in folder.glob(pattern) if path.is_file()}):
        with path.open("rb") as file:
            digest.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]
