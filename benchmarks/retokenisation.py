"""How often a transcript's text, tokenised again, is not what was sampled, and what that does to ratios.

``python -m benchmarks.retokenisation MODEL`` lets a pretrained model play some episodes of every suite with
free answers at temperature 1, one chat an episode (``context=append``), and keeps what it sampled under
``runs/retokenisation``. Then each chat is written by the chat templates of several families and tokenised as
a whole, which is all that an agent's messages allow without the sampled ids (StepPO, Equation 2).
``--publish`` writes the table of ``docs/gateway.md`` and ``benchmarks/retokenisation.json``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean, quantiles
from typing import Any

import torch

from agentgym.core.types import Message, Trajectory
from agentgym.io.files import make_folder, replace_file
from agentgym.prompts.chat_template import ChatSetup, render_conversation
from agentgym.registration import open_vector
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from agentgym.training.models import families
from agentgym.training.models.models import LanguageModel, load_model
from agentgym.training.policy.agent import make_model_agent

FOLDER = Path("runs/retokenisation")
FOUND, PAGE = Path("benchmarks/retokenisation.json"), Path("docs/gateway.md")
BEGIN, END = "<!-- retokenised -->\n", "<!-- end of retokenised -->\n"
EPISODES, TURNS, ANSWER_TOKENS, PROMPT_TOKENS = 8, 6, 48, 1_536
CLIP = 0.2
"""Of the published objectives: beyond it a token's ratio is clipped."""

SUITES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "ALFWorld": ("agentgym/ALFWorld-v0", {}),
    "WebShop": ("agentgym/WebShop-v0", {}),
    "Sokoban": ("agentgym/Sokoban-v0", {"dim_room": (6, 6)}),
    "HotpotQA": ("agentgym/HotpotQA-v0", {}),
    "PaperSearch": ("agentgym/PaperSearch-v0", {}),
    "SOTOPIA": ("agentgym/Sotopia-v0", {"view": "lite"}),
}

PROMPTING: Mapping[str, Any] = {
    "wording": "generic",
    "answer": "think-action",
    "choice": "free",
    "context": "append",
    "budget": PROMPT_TOKENS,
    "max_tokens": ANSWER_TOKENS,
    "temperature": 1.0,
}

OWN = "own"
"""The template that the model was sampled with."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A sampled response, and the user's message before it."""

    asked: str
    text: str
    """Without the token that ends it."""
    ids: tuple[int, ...]
    """Likewise."""


@dataclass(frozen=True, slots=True)
class Retokenised:
    """What became of one suite's responses under one template."""

    suite: str
    template: str
    responses: int = 0
    other_ids: int = 0
    """Responses that are tokenised otherwise."""
    missing: int = 0
    """Responses of which the chat lacks a part, such as thoughts that the template leaves out."""
    chats: int = 0
    other_chats: int = 0
    """Chats of which any token before the last response differs from what the model was shown."""
    ratios: tuple[float, ...] = field(default=())
    """Of each response that is there whole: exp of the mean difference of its tokens' log-probabilities."""


# ---- sampling -------------------------------------------------------------------------------------


def sample(suite: str, model: Path) -> list[list[Answer]]:
    """Return the chats of a suite; what was sampled before is read."""
    path = FOLDER / f"{suite.lower()}.json"
    if not path.exists():
        env_id, options = SUITES[suite]
        with closing(open_vector(env_id, EPISODES, options={**options, "max_steps": TURNS})) as envs:
            worker = RolloutWorker(envs, make_model_agent(envs, str(model), **PROMPTING), env_id=env_id)
            specs = [EpisodeSpec(task.id, seed, 0) for seed, task in enumerate(envs.tasks[:EPISODES])]
            stop = load_model(model).stop_ids
            chats = [[asdict(answer) for answer in _answers(each, stop)] for each in worker.run(specs)]
        make_folder(FOLDER)
        replace_file(path, json.dumps(chats) + "\n")
    chats = json.loads(path.read_text(encoding="utf-8"))
    return [[Answer(each["asked"], each["text"], tuple(each["ids"])) for each in chat] for chat in chats]


def _answers(episode: Trajectory, stop: Sequence[int]) -> list[Answer]:
    found = []
    for completion in episode.completions:
        if completion.response_ids and completion.messages:
            ids = completion.response_ids
            ids = ids[:-1] if ids[-1] in stop else ids
            found.append(Answer(completion.messages[-1].text, completion.text, ids))
    return found


# ---- one chat under one template ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Template:
    """A chat template with a tokenizer that knows its special tokens."""

    name: str
    model: LanguageModel

    @classmethod
    def of(cls, name: str, path: Path) -> _Template:
        model = load_model(path)
        if name != OWN:
            family = families.FAMILIES[name]
            # not what structures answers, such as <think>: the model spelled it out
            tokens = [token for token in (family.begin, family.end, *family.special) if token]
            model.tokenizer.add_special_tokens({"additional_special_tokens": tokens, "eos_token": family.end})
            source = Path(families.__file__).with_name("templates") / f"{name}.jinja"
            model.tokenizer.chat_template = source.read_text(encoding="utf-8")
        return cls(name, model)

    @property
    def scored(self) -> bool:
        """Whether the model has embeddings for all tokens of the template."""
        return len(self.model.tokenizer) <= int(self.model.model.config.vocab_size)

    def exact(self, chat: Sequence[Answer]) -> tuple[list[int], list[slice]]:
        """Return the chat as sampled: each response's own ids, and only what is new of the template."""
        coder, end = self.model.chat, self.model.tokenizer.eos_token_id
        ids = coder.encode_chat(chat[0].asked)
        places = []
        for number, answer in enumerate(chat):
            if number:
                ids += coder.encode_next(answer.asked, ids)
            places.append(slice(len(ids), len(ids) + len(answer.ids)))
            ids += [*answer.ids, end]
        return ids, places

    def naive(self, chat: Sequence[Answer]) -> tuple[list[int], list[slice | None]]:
        """Return the chat's text tokenised as a whole, and where responses are; None where a part lacks."""
        messages = [
            Message(role, text)
            for answer in chat
            for role, text in (("user", answer.asked), ("assistant", answer.text))
        ]
        tokenizer = self.model.tokenizer
        after = Message("user", "?")  # templates write chats that a question ends
        special = tokenizer.special_tokens_map
        text = render_conversation(tokenizer.get_chat_template(), [*messages, after], special, ChatSetup())
        coded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        places: list[slice | None] = []
        begin = 0
        for answer in chat:
            asked = text.find(answer.asked.strip(), begin)
            begin = asked + len(answer.asked.strip())
            found = text.find(answer.text.strip(), begin)
            if found < 0 or not answer.text.strip():
                places.append(None)
                continue
            span = found, found + len(answer.text.strip())
            inside = [
                number
                for number, (first, last) in enumerate(coded["offset_mapping"])
                if first < span[1] and last > span[0]
            ]
            places.append(slice(inside[0], inside[-1] + 1))
            begin = span[1]
        return list(coded["input_ids"]), places


def measure(suite: str, template: _Template, chats: Sequence[Sequence[Answer]]) -> Retokenised:
    """Return what became of a suite's responses."""
    counts = dict.fromkeys(("responses", "other_ids", "missing", "chats", "other_chats"), 0)
    ratios: list[float] = []
    for chat in chats:
        if not chat:
            continue
        ids, places = template.exact(chat)
        again, found = template.naive(chat)
        last = places[-1].start
        counts["chats"] += 1
        counts["other_chats"] += ids[:last] != again[:last]
        whole = [(own, other) for own, other in zip(places, found, strict=True) if other is not None]
        counts["responses"] += len(chat)
        counts["missing"] += len(chat) - len(whole)
        counts["other_ids"] += sum(ids[own] != again[other] for own, other in whole)
        if template.scored:
            true, naive = (_log_probs(template.model, row) for row in (ids, again))
            ratios += [
                float((naive[other].sum() - true[own].sum()) / max(own.stop - own.start, 1))
                for own, other in whole
                if own.stop > own.start
            ]
    ratios = [round(float(torch.tensor(each).exp()), 6) for each in ratios]
    return Retokenised(suite, template.name, **counts, ratios=tuple(ratios))


@torch.no_grad()
def _log_probs(model: LanguageModel, ids: Sequence[int]) -> torch.Tensor:
    """Return (T,) the log-probability of each token given those before it; 0 of the first."""
    tokens = torch.tensor([ids])
    scores = model.model(tokens).logits[0, :-1].float().log_softmax(-1)
    return torch.cat([torch.zeros(1), scores.gather(1, tokens[0, 1:, None])[:, 0]])


# ---- what is shown --------------------------------------------------------------------------------


def table(found: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of the page."""
    lines = [
        "| template | suite | responses | tokenised otherwise | left out or changed | chats that differ "
        f"before the last response | ratio of a response, 5 to 95 % | outside 1 +- {CLIP:g} |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for each in found:
        ratios = each["ratios"]
        spread, outside = "", ""
        if len(ratios) > 1:
            cuts = quantiles(ratios, n=20, method="inclusive")
            spread = f"{cuts[0]:.3f} to {cuts[-1]:.3f}"
            outside = f"{fmean(abs(ratio - 1) > CLIP for ratio in ratios):.1%}"
        whole = each["responses"] - each["missing"]
        lines.append(
            f"| {each['template']} | {each['suite']} | {each['responses']} | "
            f"{each['other_ids'] / max(whole, 1):.1%} | {each['missing'] / each['responses']:.1%} | "
            f"{each['other_chats']} of {each['chats']} | {spread} | {outside} |"
        )
    return "\n".join(lines) + "\n"


def publish(found: Sequence[Mapping[str, Any]]) -> None:
    """Write the numbers, and the table into the page."""
    replace_file(FOUND, json.dumps(list(found)) + "\n")
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    replace_file(PAGE, before + BEGIN + table(found) + END + rest.split(END)[1])


def main(words: Sequence[str] | None = None) -> int:
    """Sample, measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=Path, help="model directory, such as benchmarks.smollm2 makes")
    parser.add_argument("--publish", action="store_true", help="write the committed table and numbers")
    given = parser.parse_args(words)
    torch.set_num_threads(1)
    chats = {suite: sample(suite, given.model) for suite in SUITES}
    found = []
    for name in (OWN, *families.FAMILIES):
        template = _Template.of(name, given.model)
        found += [asdict(measure(suite, template, chats[suite])) for suite in SUITES]
    print(table(found))
    if given.publish:
        publish(found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
