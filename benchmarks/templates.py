"""What chat templates of model families do with systems, tools, thoughts and chats of several turns.

``python -m benchmarks.templates [FOLDER ...]`` reads the ``*.jinja`` files of folders, TRL's own where none
is named, and writes ``benchmarks/templates.md``. Each template is rendered beside `transformers`, and every
suite's oracle plays its first turns under it in every context, to the token. Tokenizers are of bytes, with
the special tokens that the template spells; what begins and ends a text is guessed from the family.
"""

from __future__ import annotations

import argparse
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from agentgym.core.tools import Tool, ToolParameter, tool_schemas
from agentgym.core.types import Completion, Message, Request, Step
from agentgym.errors import UsageError
from agentgym.io.files import replace_file
from agentgym.prompts.chat_template import REFUSALS, ChatSetup, render_conversation
from agentgym.prompts.chat_tokenizer import ChatTokenizer
from agentgym.prompts.chat_turns import render_after, render_next
from agentgym.prompts.contexts import CHATS, CONTEXTS
from agentgym.prompts.settings import Prompting
from agentgym.registration import ENVIRONMENTS, open_vector
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker

PAGE = Path(__file__).with_suffix(".md")
SYSTEM = "Be brief."
SCHEMAS: list[Any] = tool_schemas([Tool("move", "Move.", (ToolParameter("direction"),))])
BAR = chr(0xFF5C)  # DeepSeek's
FAMILIES = {
    "<|turn>": ("<bos>", "<eos>"),
    "start_of_turn": ("<bos>", "<eos>"),
    f"<{BAR}": (f"<{BAR}begin▁of▁sentence{BAR}>", f"<{BAR}end▁of▁sentence{BAR}>"),
    "<|start|>": ("<|startoftext|>", "<|return|>"),
    "<|end|>": ("<s>", "<|endoftext|>"),
}
"""Begin and end token of texts, by a mark in the template; of others ``<s>`` and what ends a message."""
THOUGHTS = {
    "<|channel>thought": "<channel|>",
    "<|channel|>analysis<|message|>": "<|end|><|start|>assistant<|channel|>final<|message|>",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<seed:think>": "</seed:think>",
    "<mm:think>": "</mm:think>",
    "[THINK]": "[/THINK]",
    "<think>": "</think>",
}
"""What ends a thought, by what begins it; the first that the template spells."""
_MARK = (
    rf"\[e~\[|<\|?/?[A-Za-z_]+\|?>|<\|[^\s|<>{{}}'\"]+\|>|<{BAR}[^\s{BAR}<>{{}}'\"]+{BAR}>|\[/?[A-Z_]{{3,}}\]"
)
_END = re.compile(rf"\s*((?:<\|END_RESPONSE\|>)?(?:{_MARK}|</s>))")
_PLAIN = re.compile(r"</?(?!s>|bos>|eos>|start_of|end_of)[a-z_:]+>")  # such as <think>: no special tokens


@dataclass(frozen=True, slots=True)
class Template:
    """A chat template, with the special tokens and thoughts that it was guessed to have."""

    source: str
    special: Mapping[str, str]
    begins: str
    """Begin of a thought."""
    closes: str
    end: str
    """What ends an answer, one special token or two; empty where the template writes none."""
    opening: str
    """What the template writes between a question and its answer."""

    @classmethod
    def of(cls, source: str) -> Template:
        """Guess the tokens of a template."""
        bos, eos = next((FAMILIES[mark] for mark in FAMILIES if mark in source), ("<s>", ""))
        special = {"bos_token": bos, "eos_token": eos or "</s>"}
        begins = next((each for each in THOUGHTS if each in source), "<think>")
        opening, asked = "", [Message("user", "Q7")]
        ended = None
        try:
            opening = render_conversation(source, asked, special).rpartition("Q7")[2]
            ended = _END.match(render_after(source, asked, special, ChatSetup()).partition("Q7")[0])
        except REFUSALS:
            pass
        end = ended[1] if ended and not _PLAIN.fullmatch(ended[1]) else ""
        special["eos_token"] = eos or end.rpartition("<|END_RESPONSE|>")[2] or "</s>"
        return cls(source, special, begins, THOUGHTS[begins], end, opening)

    @property
    def opened(self) -> bool:
        """Whether the template opens a thought before an answer."""
        return self.opening.rstrip().endswith(self.begins)

    def thought(self) -> str:
        """Return a thought as a model says it after the template's opening; none after one that is closed."""
        if self.opening.rstrip().endswith(self.closes):
            return ""
        return f"{'' if self.opened else self.begins}\nHm.\n{self.closes}\n\n"

    def thinking(self) -> str:
        """Return who begins a thought, and whether an earlier one is in a later prompt."""
        spelled = "the model" if self.begins in self.source else "not spelled"
        state = "opened" if self.opened else "closed" if not self.thought() else spelled
        fields = dict.fromkeys(("reasoning_content", "reasoning", "thinking"), "Hm.")
        texts = {"text": {"content": f"{self.begins}\nHm.\n{self.closes}\n\nUp."}, "field": fields}
        for name, said in texts.items():
            answer = {"role": "assistant", "content": "Up.", **said}
            chat: list[Any] = [Message("user", "Q"), answer, Message("user", "R")]
            try:
                kept = "Hm." in render_conversation(self.source, chat, self.special)
                state += f", {name} {'kept' if kept else 'dropped'}"
            except REFUSALS:
                state += f", {name} refused"
        return state

    def tokenizer(self) -> PreTrainedTokenizerFast:
        """Return a tokenizer of bytes with the special tokens that the template spells."""
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        core = Tokenizer(models.BPE({letter: number for number, letter in enumerate(alphabet)}, []))
        core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        core.decoder = decoders.ByteLevel()
        found = {each for each in re.findall(_MARK, self.source + self.end) if not _PLAIN.fullmatch(each)}
        spelled = sorted(found | {*self.special.values()})
        core.add_special_tokens([AddedToken(each, special=True, normalized=False) for each in spelled])
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, **self.special)  # type: ignore[no-untyped-call]
        tokenizer.chat_template = self.source
        return tokenizer

    def appended(self, thought: str) -> str:
        """Return how a chat that grew by what was sampled differs from the template's own."""
        said, users = f"{thought}Up.", [Message("user", f"Question {n}?") for n in range(3)]
        try:
            grown = render_conversation(self.source, users[:1], self.special)
            for user in users[1:]:
                grown += said + render_next(self.source, user.text, self.special, ChatSetup())
            chat = [each for user in users for each in (user, Message("assistant", said))][:-1]
            whole = render_conversation(self.source, chat, self.special)
        except (*REFUSALS, UsageError) as error:
            return _line(error)
        if thought and "Hm." not in whole:
            return "dropped"
        at = next((n for n, (a, b) in enumerate(zip(grown, whole, strict=False)) if a != b), 0)
        return "exact" if grown == whole else f"{grown[at : at + 16]!r} is {whole[at : at + 16]!r}"


def compared(template: Template, tokenizer: PreTrainedTokenizerFast) -> Iterator[tuple[str, str]]:
    """Yield which chats this project does not render as `transformers` does, and why."""
    user, answer = {"role": "user", "content": "Q"}, {"role": "assistant", "content": "Up."}
    long = {"role": "user", "content": "word " * 2000}
    cases: dict[str, tuple[Any, Any]] = {
        "chat": ([user, answer, user], None),
        "tools": ([user, answer, user], SCHEMAS),
        "40 turns": ([user, answer] * 40 + [user], None),
        "10,000 characters": ([long], None),
    }
    for name, (chat, tools) in cases.items():
        theirs = None
        try:
            theirs = tokenizer.apply_chat_template(
                chat, tools=tools, tokenize=False, add_generation_prompt=True
            )
            ours = render_conversation(
                template.source, chat, template.special, ChatSetup(tools=tuple(tools or ()))
            )
        except Exception as error:  # noqa: BLE001 (a template raises anything)
            yield _line(error), name if theirs else f"{name}, transformers too"
        else:
            if ours != theirs:
                yield "not as transformers renders it", name


class _Recorder:
    """A policy that keeps what it was asked."""

    def __init__(self, policy: Any):
        self.policy, self.asked = policy, list[Request]()

    def act(self, requests: Sequence[Request]) -> Sequence[Completion]:
        self.asked += requests
        return list(self.policy.act(requests))


def episode(env_id: str) -> tuple[list[Request], tuple[Tool, ...]]:
    """Return the first questions that the oracle was asked on one side of a suite, and the suite's tools."""
    with closing(open_vector(env_id, 1, options={})) as envs:
        recorder = _Recorder(envs.oracle())
        list(RolloutWorker(envs, recorder, env_id=env_id).run([EpisodeSpec(envs.tasks[0].id, 0, 0)]))
        chain = recorder.asked[:1]
        for asked in recorder.asked[1:]:
            if asked.history and asked.history[:-1] == chain[-1].history:
                chain.append(asked)
        return chain[:3], envs.prototype.tools


def play(template: Template, tokenizer: Any, asked: Sequence[Request], tools: Any, **how: Any) -> None:
    """Write an episode's prompts in a context; raise `ValueError` where one is not what it has to be."""
    prompting = Prompting(wording="generic", system=SYSTEM, budget=1 << 17, **how)
    builder = prompting.builder(ChatTokenizer(tokenizer), tools)
    history: tuple[Step, ...] = ()
    so_far: tuple[int, ...] = ()
    told = ""
    for request, after in zip(asked, (*asked[1:], None), strict=True):
        fitted = builder.build(replace(request, history=history))
        text = tokenizer.decode(list(fitted.ids))
        names = [tool.name for tool in builder.template.answer.tools]
        for part in (fitted.prompt.text.strip(), SYSTEM, *names, told if how["context"] in CHATS else ""):
            if part not in text:
                raise ValueError(f"the prompt lacks {'its message' if part == fitted.prompt.text else part}")
        begun, closed = text.count(template.begins), text.count(template.closes)
        if how["context"] == "window" and begun - template.opened != closed:
            raise ValueError("an earlier thought has an end, but no begin")
        if how["context"] == "append" and so_far:
            glue = tokenizer.decode(list(fitted.ids[len(so_far) :])).partition(fitted.prompt.text.strip())[0]
            if fitted.ids[: len(so_far)] != so_far or (template.end and template.end in glue):
                raise ValueError(f"after what was sampled, the end {template.end!r} is there twice")
        if after is not None:
            told = builder.template.answer.written(after.history[-1].action).rpartition("</think>")[2].strip()
            ids = tuple(tokenizer.encode(template.thought() + told + template.end, add_special_tokens=False))
            said = Completion(told, template.thought() + told, prompt_ids=fitted.ids, response_ids=ids)
            history, so_far = (*history, replace(after.history[-1], completion=said)), fitted.ids + ids


def _line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:90]


def find(path: Path, episodes: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the line of a template in the table."""
    source = path.read_text(encoding="utf-8")
    template = Template.of(source)
    tokenizer = template.tokenizer()
    fails = Counter(compared(template, tokenizer))
    tools = system = "-"
    try:
        taken = ChatSetup(SYSTEM, tuple(SCHEMAS)).taken_by(source, template.special)
        system = "own place" if taken.system else "in the message"
        tools = "not taken" if not taken.tools else "-"
        if taken.tools and find_spec("agentgym.prompts.tool_trip"):
            trip = import_module("agentgym.prompts.tool_trip").round_trip(source, template.special, SCHEMAS)
            tools = trip.convention or f"no: {trip.problem}"
    except REFUSALS as error:
        fails[_line(error), "setup"] += 1
    for asked, owned in episodes.values():
        for how in (
            {"context": each, "answer": a} for each in CONTEXTS for a in ("think-action", "tool-calls")
        ):
            try:
                play(template, tokenizer, asked, owned, **how)
            except Exception as error:  # noqa: BLE001 (it is what the table is for)
                fails[_line(error), how["context"]] += 1
    thought = template.thought()
    append = (
        f"{template.appended('')}, thoughts {template.appended(thought)}"
        if thought
        else template.appended("")
    )
    digest = hashlib.sha256(source.encode()).hexdigest()[:12]
    places: dict[str, list[str]] = {}
    for (reason, place), times in sorted(fails.items()):
        places.setdefault(reason, []).append(f"{place} {times}" if place in CONTEXTS else place)
    failed = "; ".join(f"{reason} ({', '.join(where)})" for reason, where in places.items())
    return path.stem, digest, tools, template.thinking(), system, append, failed


def page(rows: Sequence[Sequence[str]]) -> str:
    """Return the table."""
    head = ("template", "sha256", "tools read", "thoughts", "system", "append", "what fails")
    table = [head, ("---",) * len(head), *sorted(rows, key=lambda row: (row[0].lower(), row[1]))]
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in table]
    title = (
        f"# {len(rows)} chat templates\n\n`python -m benchmarks.templates FOLDER ...` wrote this table.\n\n"
    )
    return title + "".join(f"| {' | '.join(row)} |\n" for row in cells)


def main(words: Sequence[str] | None = None) -> int:
    """Read the templates and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="*", help="folders of *.jinja files; default: TRL's")
    folders = parser.parse_args(words).folders
    if not folders and (trl := find_spec("trl")):
        folders = [Path(str(trl.origin)).parent / "chat_templates"]
    episodes = {env_id: episode(env_id) for env_id in ENVIRONMENTS if "Visual" not in env_id}
    found = {path for folder in folders for path in folder.glob("*.jinja")}
    paths = sorted(path for path in found if not path.stem.endswith("_training"))  # TRL's own marks, no more
    replace_file(PAGE, page([find(path, episodes) for path in paths]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
