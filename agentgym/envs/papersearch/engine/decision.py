"""Language-model selector: "Decision: True or False?".

Its form is that of PaSa's selector (He et al. 2025): the probability of "True" as the next token after a
prompt that ends with "Decision:". Prompts run in batches of alike length, padded on the left, where padding
has no weight and no position: what stands beside a prompt changes its probability by rounding alone, which
`TOLERANCE` allows for. A prompt that comes again has the probability that it had.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from agentgym.core.queries import AnswerKind
from agentgym.envs.papersearch.data.corpus import PaperCorpus
from agentgym.envs.papersearch.topics import Topic
from agentgym.errors import UsageError
from agentgym.io.optional import load
from agentgym.io.untrusted import open_regular, read_file

TOLERANCE: Final = 0.02
"""Largest difference of one model's probabilities on two machines, in the precision of its weights."""

ABSTRACT_WORDS: Final = 400

MAX_BATCH_TOKENS: Final = 16_384
"""Largest number of tokens in a batch of prompts, padding included; a longer prompt is a batch alone."""

MAX_PROMPT_SIZE: Final = 1 << 16
"""Bytes of a prompt's file at most."""

TRUE: Final = " True"

PROMPT: Final = """\
Judge whether a paper answers a query in full.

Query: {query}

Paper: {title}
{abstract}

Answer with "Decision: True" or "Decision: False", then give the reason.
Decision:"""
"""Prompt with the slots ``query``, ``title`` and ``abstract``; a trained model needs that of its training."""

_MAX_CACHED = 1 << 20
"""Probabilities that a judge remembers: about 100 bytes each."""

_TokenizedPrompt: TypeAlias = tuple[list[int], int, bytes]
"""Tokens of a prompt, the first of `TRUE`, and a digest of its text."""

_PINNED = ("*.safetensors", "*.bin", "config.json", "tokenizer*", "vocab*", "merges.txt")


class Judge(Protocol):
    """Probability that a model continues with "True"."""

    @property
    def name(self) -> str:
        """Name, with its pins such as the sha256 of the weights."""

    def probabilities(self, prompts: Sequence[str]) -> Sequence[float]:
        """Return the probability of `TRUE` after each prompt, whatever stands beside it."""


def read_prompt(path: Path) -> str:
    """Read a prompt of one's own, UTF-8 with the slots of `PROMPT`; blanks at its end are no part of it."""
    content = read_file(path, largest=MAX_PROMPT_SIZE, remedy="name the file of a selector's prompt")
    try:
        return content.decode("utf-8-sig").rstrip()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8: save the selector's prompt as text") from error


class DecisionSelector:
    """Scores papers by a `Judge`."""

    def __init__(self, corpus: PaperCorpus, judge: Judge, prompt: str = PROMPT):
        """Ask a judge.

        Args:
            corpus: the papers.
            judge: is asked.
            prompt: a text with the slots of `PROMPT`, such as `read_prompt` reads.

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
        values = self._judge.probabilities([self._text(query, number) for query, number in distinct])
        answers = dict(zip(distinct, map(float, values), strict=True))
        return [answers[tuple(question)] for question in questions]

    def _text(self, query: str, number: int) -> str:
        paper = self._corpus.paper(number)
        abstract = " ".join(paper.text.split()[:ABSTRACT_WORDS])
        return self._prompt.format(query=query, title=paper.title, abstract=abstract)

    def agrees(self, recorded: Any, computed: Any) -> bool:
        """Return whether both are numbers within the tolerance."""
        return type(recorded) is float and abs(recorded - computed) <= self.kind.tolerance


class LocalJudge:
    """A causal language model of a folder, through transformers."""

    def __init__(self, folder: Path, *, batch_tokens: int = MAX_BATCH_TOKENS):
        """Load model and tokenizer, onto a GPU where there is one.

        Args:
            folder: a model in the form of Hugging Face's hub.
            batch_tokens: largest size of a batch, padding included; 1 for one prompt at a time.

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
        self._takes = frozenset(inspect.signature(model.forward).parameters)
        self._batch_tokens = batch_tokens
        self._known: dict[bytes, float] = {}
        self.name = f"model {_digest(folder)}"

    def probabilities(self, prompts: Sequence[str]) -> list[float]:
        """Return the probability of `TRUE` after each prompt, whatever stands beside it."""
        keys = [hashlib.blake2b(prompt.encode(), digest_size=16).digest() for prompt in prompts]
        if len(self._known) > _MAX_CACHED:
            self._known = {}
        known = self._known
        new = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in known}
        tokenized = sorted(
            ((*self._tokens(prompt), key) for key, prompt in new.items()), key=lambda each: len(each[0])
        )
        for batch in self._batches(tokenized):
            values = self._pass([ids for ids, _, _ in batch])
            for (_, true, key), row in zip(batch, values, strict=True):
                known[key] = float(row[true])
        return [known[key] for key in keys]

    def _tokens(self, prompt: str) -> tuple[list[int], int]:
        """Return the tokens before `TRUE`, and its first; where the two merge, they part before the end."""
        ids, longer = (self._tokenizer(text)["input_ids"] for text in (prompt, prompt + TRUE))
        place = next((i for i, (a, b) in enumerate(zip(ids, longer, strict=False)) if a != b), len(ids))
        return longer[:place], longer[place]

    def _batches(self, prompts: Sequence[_TokenizedPrompt]) -> Iterator[Sequence[_TokenizedPrompt]]:
        """Yield prompts, the shortest first, as many together as the batch's tokens allow."""
        begin = 0
        for end, (ids, _, _) in enumerate(prompts):
            if end > begin and len(ids) * (end + 1 - begin) > self._batch_tokens:
                yield prompts[begin:end]
                begin = end
        if prompts:
            yield prompts[begin:]

    def _pass(self, prompts: Sequence[Sequence[int]]) -> Any:
        """Return the probabilities of the next token after each prompt: (prompts, vocabulary)."""
        torch, longest = self._torch, max(map(len, prompts))
        tokens = torch.zeros(len(prompts), longest, dtype=torch.long)
        mask = torch.zeros_like(tokens)
        for row, ids in enumerate(prompts):
            tokens[row, longest - len(ids) :] = torch.tensor(ids)
            mask[row, longest - len(ids) :] = 1
        given = {
            "input_ids": tokens,
            "attention_mask": mask,
            "position_ids": (mask.cumsum(1) - 1).clamp(min=0),
        }
        moved = {name: each.to(self._device) for name, each in given.items() if name in self._takes}
        if "logits_to_keep" in self._takes:
            moved["logits_to_keep"] = 1  # logits of all positions would be gigabytes
        with torch.inference_mode():
            return self._model(**moved).logits[:, -1].float().softmax(-1)


def _digest(folder: Path) -> str:
    """Return 16 hex digits over weights, configuration and tokenizer."""
    digest = hashlib.sha256()
    for path in sorted({path for pattern in _PINNED for path in folder.glob(pattern) if path.is_file()}):
        with open_regular(path) as file:
            digest.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]
