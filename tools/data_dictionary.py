"""Write the JSON Schemas of files: ``python -m tools.data_dictionary``; with names, print their fields.

Both follow from the dataclasses that read and write the files; the meaning of a field is its docstring.
`tools.build_site` makes a page of all fields, which is not in the checkout.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
import textwrap
import types
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from agentgym.endpoint.ledger import LedgerRow
from agentgym.evaluation.board.exports import SCHEMA as BOARD_SCHEMA
from agentgym.evaluation.board.exports import schema as board_schema
from agentgym.evaluation.board.published import Published
from agentgym.evaluation.log.judge_spread import SPREAD_SCHEMA, JudgeSpread
from agentgym.evaluation.log.results import SCHEMA, EvalLog, EvalSample
from agentgym.evaluation.log.transcripts import TranscriptRecord
from agentgym.evaluation.suites.suite import Suite
from agentgym.evaluation.verify.verdicts import VERDICT_SCHEMA, Verdict
from agentgym.inference.policy.saved import SCHEMA as AGENT_SCHEMA
from agentgym.inference.policy.saved import AgentFile
from agentgym.io.records import json_schema
from agentgym.prompts.settings import Prompting, TemplatePin
from agentgym.rollout.stored_episode import NOT_KEPT, PACKED, KeptEpisode
from agentgym.rollout.stored_episode import SCHEMA as EPISODE_SCHEMA

ROOT = Path(__file__).resolve().parents[1]
SCHEMAS = ROOT / "docs" / "schemas"

DRAFT = "https://json-schema.org/draft/2020-12/schema"

STATED = "stated"

MANY = 12
"""Choices of a field beyond which their number is given."""


@dataclass(frozen=True, slots=True)
class File:
    """A file, or a line of one."""

    name: str
    """Of its schema."""
    version: int
    path: str
    about: str
    record: Any
    vouches: str
    """For fields that nothing else is said of."""
    others: Mapping[str, str] = field(default_factory=dict)
    """Who vouches for single fields, by dotted name; what lies below them is the same."""
    partial: bool = False
    """Whether keys with a default may be left out."""
    packed: Container[str] = ()
    """Fields of numbers that are written as base64."""
    omitted: Container[str] = ()
    """Fields that are never written."""
    tables: Mapping[str, Any] = field(default_factory=dict)
    """Records of what the file's own record has as a table only, by dotted name."""

    @property
    def schema(self) -> dict[str, Any]:
        """Its JSON Schema."""
        title = f"{self.path} of agentgym, schema {self.version}"
        record = json_schema(self.record, partial=self.partial)
        schema = {"$schema": DRAFT, "title": title, **_written(record, self)}
        for name, record in self.tables.items():
            *path, last = name.split(".")
            inner = schema
            for key in path:
                inner = inner["properties"][key]
            inner["properties"][last] = json_schema(record, partial=self.partial)
            inner["required"] = list(dict.fromkeys((*inner["required"], last)))
        return schema

    @property
    def schema_file(self) -> Path:
        """Where that is published."""
        return SCHEMAS / f"{self.name}-{self.version}.json"


def _written(schema: Any, file: File) -> Any:
    """Return a schema with the packed fields of a file, and without the omitted ones."""
    if not isinstance(schema, dict):
        return [_written(each, file) for each in schema] if isinstance(schema, list) else schema
    base64 = {"type": "string", "contentEncoding": "base64"}
    return {
        name: base64 if name in file.packed else _written(value, file)
        for name, value in schema.items()
        if name not in file.omitted
    }


CHECKED = "compared with `episodes.jsonl`"
MODEL = "`verify --model` recomputes it; else stated"

FILES = (
    File(
        "run",
        SCHEMA,
        "run.json",
        "In a run's folder: what was asked, what came out, and where. `agentgym bench` writes it.",
        EvalLog,
        "recomputed",
    ),
    File(
        "episodes",
        SCHEMA,
        "episodes.jsonl",
        "In a run's folder: a line per episode, in the order in which they ended.",
        EvalSample,
        "recomputed",
    ),
    File(
        "transcripts",
        2,
        "transcripts.jsonl",
        "In a run's folder, of models: a line per episode, before the episode's own. A message is its "
        "`parts` of `texts`, joined by blank lines. A prompt's token ids are the first `start` and the last "
        "`end` of the prompt before, with `ids` between: `agentgym.evaluation.log.transcripts` puts them "
        "together.",
        TranscriptRecord,
        CHECKED,
        {
            "texts": MODEL,
            "steps[].messages": MODEL,
            "steps[].response": MODEL,
            "steps[].format_error": MODEL,
            "steps[].tokens": MODEL,
            "steps[].seconds": STATED,
            "redactions": STATED,
        },
    ),
    File(
        "verify",
        VERDICT_SCHEMA,
        "verify.json",
        "In a run's folder, for people: what the last verification found. Nothing reads it.",
        Verdict,
        "the verifier",
    ),
    File(
        "calls",
        1,
        "calls.jsonl",
        "In the folder of a run that asks endpoints: a line per call, whatever came of it. Nothing reads it.",
        LedgerRow,
        STATED,
    ),
    File(
        "judge_spread",
        SPREAD_SCHEMA,
        "judge_spread.json",
        "In a run's folder: how far a judge's ratings of one transcript lie apart. `agentgym judge` writes "
        "it, and boards show it.",
        JudgeSpread,
        STATED,
    ),
    File(
        "rollouts",
        EPISODE_SCHEMA,
        "rollouts/NNNNNN.jsonl",
        "In a training run's folder, with `keep_rollouts`: the episodes of iteration NNNNNN, a line each. A "
        "line of `agentgym data pool export` has the same form, with the fields up to `trajectory`. Fields "
        "with their default are left out. Base64 is of little-endian int32, of log-probabilities float64. An "
        "observation is a text, or a table of `text` and `image`; kept rollouts have none.",
        KeptEpisode,
        STATED,
        partial=True,
        packed=PACKED,
        omitted=NOT_KEPT,
    ),
    File(
        "agent",
        AGENT_SCHEMA,
        "agent.json",
        "In a model directory: how the model is asked, and how its weights came about.",
        AgentFile,
        STATED,
        {"prompting.template": "recomputed from the words that are installed"},
        tables={"prompting": Prompting, "prompting.template": TemplatePin},
    ),
    File(
        "suite",
        2,
        "suites/NAME.toml",
        "A suite, as TOML: what is played, and by whom. Its sha256 is in every run and on every board.",
        Suite,
        "the suite's author",
        {
            "agent[].model": "the model directory, where it says something",
            "env[].measures": "the suite's author; no digest, and no rank",
        },
        partial=True,
    ),
    File(
        "published",
        2,
        "published.toml",
        "Beside a leaderboard, as TOML: numbers as papers print them, never ranked.",
        Published,
        "the paper",
        partial=True,
    ),
)

MEANINGS: Mapping[str, str] = {
    "EvalSpec.seed": "Random seed of the suite, which the seed of every episode follows from.",
    "Suite.seed": "Random seed of the suite, which the seed of every episode follows from.",
    "Training.seed": "Random seed of the training run.",
    "env_id": "Gymnasium id of the environment.",
    "task_id": "Id of the task: 32 hex digits of its content.",
    "task_type": "Family of the task; empty where a suite has none.",
    "seed": "The environment's random seed.",
    "rollout": "Index of this attempt at its task, from 0.",
    "score": "The suite's own score; 0 where an error ended the episode.",
    "won": "Whether the task was solved.",
    "progress": "Share of the task that is done, from 0 to 1.",
    "reward": "Of the step.",
    "episode_return": "Sum of the rewards.",
    "invalid_count": "Actions that the environment rejected.",
    "end_reason": "Why the episode ended.",
    "prompt_tokens": "Tokens that the model read.",
    "completion_tokens": "Tokens that the model sampled.",
    "env_seconds": "Time in the environment.",
    "model_seconds": "Time in the policy.",
    "schema": "Version of this file's format.",
    "suite": "The suite's own settings.",
    "suite_sha256": "Of what the suite plays.",
    "envs": "The environments that were at hand.",
    "env": "The environment, as the suite has it.",
    "agent": "The agents.",
    "label": "Heading of the environment's column.",
    "reason": "Why, in words.",
    "name": "The name.",
    "version": "The version.",
    "split": "Split of the tasks.",
    "attempts": "Episodes per task.",
    "floor": "Name of the agent whose score counts as 0.",
    "oracle": "Name of the agent whose score counts as 1.",
    "options": "Options of the agent's constructor.",
    "sampling": "How responses are drawn.",
    "parser": "Name of the answer format.",
    "model": "How the weights came about.",
    "card": "Who answers for the agent.",
    "contact": "Whom to ask.",
    "licence": "Of the weights.",
    "algorithm": "Name of the training algorithm.",
    "base_model": "What training began with.",
    "weights_sha256": "Of the weights: what `cat *.safetensors | sha256sum` prints.",
    "training_run": "Name of the training run's folder.",
    "training_seed": "Random seed of the training run.",
    "training_episodes": "Episodes played in training.",
    "training_tokens": "Tokens sampled in training.",
    "training_gpu_seconds": "GPU time of training.",
    "agentgym": "Version of this package.",
    "choice": "Whether a response spells an admissible action, or is free text that is read.",
    "gpu_seconds": "GPU time of training.",
    "python": "Version of Python.",
    "packages": "Versions of packages that may change a result.",
    "ok": "Whether nothing is wrong.",
    "role": "What the agent is to the suite.",
    "problems": "What is wrong.",
    "kind": "What kind of thing is wrong.",
    "where": "Where it is.",
    "detail": "What it is.",
    "tolerance": "How far recomputed values may lie from recorded ones.",
    "action": "What was sent to the environment.",
    "pattern": "Name of the pattern.",
    "count": "How often it was found.",
    "initial_hash": "Hash of the state that it began in.",
    "next_state_hash": "Hash of the state that it led to.",
    "admissible_actions": "What the environment would have accepted.",
    "completion": "The policy's answer.",
    "terminated": "Whether the game ended with it.",
    "truncated": "Whether the step limit ended the episode with it.",
    "final_observation": "Seen after the last step.",
    "steps": "The steps, in order.",
    "prompting": "How the model is asked.",
    "training": "How the weights came about.",
    "template": "What pins the words of the prompts.",
    "id": "Its id.",
    "sha256": "Of every word of it.",
    "budget": "Most tokens of a prompt.",
    "temperature": "Of sampling; 0 takes the likeliest token.",
    "paper": "The papers.",
    "table": "Which table of the paper.",
    "title": "What it shows.",
    "column": "What the columns are of.",
    "row": "The lines.",
    "environment": "What was played.",
    "method": "What the paper calls the agent.",
    "success": "Share of tasks solved.",
}
"""Of fields whose names say it, and which have no docstring: by name, or by record and name."""


def schema_text(file: File) -> str:
    """Return the content of a published schema."""
    return _text(file.schema)


def _text(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def page() -> str:
    """Return the data dictionary: the page of all fields on the site, beside the folder ``docs``."""
    return "\n".join([_BEGIN, *map(section, FILES)])


def section(file: File) -> str:
    """Return the part of the page on one file."""
    link = f"docs/schemas/{file.schema_file.name}"
    lines = ["| field | type | meaning | origin |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(map(_cell, row))} |" for row in rows(file)]
    schema = f"Schema {file.version}: [{file.schema_file.name}]({link})."
    return "\n\n".join((f"## {file.path}", file.about, schema, "\n".join(lines))) + "\n"


_BEGIN = """\
# Fields of every file

The dataclasses that read and write the files make this page. [Files](docs/files.md) explains which file is
which, and what *recomputed* and *stated* mean.
"""


def rows(file: File) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, type, meaning and voucher of every field, nested ones by dotted name."""
    yield from _rows(file, file.record, "", file.vouches)


def _rows(file: File, record: Any, prefix: str, vouches: str) -> Iterator[tuple[str, str, str, str]]:
    hints, meanings = get_type_hints(record), _docstrings(record)
    for entry in fields(record):
        if entry.name in file.omitted:
            continue
        name = f"{prefix}{entry.name}"
        kind, many = _inner(hints[entry.name])
        who = file.others.get(f"{name}[]", file.others.get(name, STATED if _stated(entry) else vouches))
        own = f"{record.__name__}.{entry.name}"
        meaning = meanings.get(entry.name) or MEANINGS.get(own) or MEANINGS.get(entry.name, "")
        yield f"`{name}`", "base64" if entry.name in file.packed else _type(hints[entry.name]), meaning, who
        if is_dataclass(kind):
            yield from _rows(file, kind, f"{name}{'[]' * many}.", who)
        if name in file.tables:
            yield from _rows(file, file.tables[name], f"{name}.", who)
            for table, pin in file.tables.items():
                if table.startswith(f"{name}."):
                    yield f"`{table}`", "record", MEANINGS["template"], file.others.get(table, who)
                    yield from _rows(file, pin, f"{table}.", file.others.get(table, who))


def _stated(entry: Field[Any]) -> bool:
    return bool(entry.metadata.get("stated"))


def _inner(kind: Any) -> tuple[Any, bool]:
    """Return the record within an annotation, and whether it is a list of them."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is tuple:
        return args[0], True
    if origin in (Union, types.UnionType):
        found = [_inner(arg) for arg in args if arg is not type(None)]
        return next(((inner, many) for inner, many in found if is_dataclass(inner)), found[0])
    return kind, False


_NAMES = {str: "text", int: "integer", float: "number", bool: "true or false", type(None): "null"}


def _type(kind: Any) -> str:
    origin, args = get_origin(kind), get_args(kind)
    if kind in _NAMES:
        return _NAMES[kind]
    if origin is Literal:
        few = len(args) <= MANY
        return " or ".join(f"`{arg}`" for arg in args) if few else f"one of {len(args)} words"
    if origin in (Union, types.UnionType):
        return " or ".join(_type(arg) for arg in args)
    if origin is tuple:
        if args[-1] is Ellipsis:
            return f"list of {_type(args[0])}"
        return f"[{', '.join(_type(arg) for arg in args)}]"
    return "table" if not is_dataclass(kind) else "record"


@cache
def _docstrings(record: Any) -> dict[str, str]:
    """Return the docstrings of a dataclass's fields, inherited ones too, each on one line."""
    found: dict[str, str] = {}
    bases: tuple[type, ...] = record.__bases__
    for base in filter(is_dataclass, bases):
        found |= _docstrings(base)
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(record))).body
    assert isinstance(tree, ast.ClassDef)
    for entry, after in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(entry, ast.AnnAssign) and isinstance(after, ast.Expr):
            assert isinstance(entry.target, ast.Name)
            text = ast.literal_eval(after.value)
            found[entry.target.id] = " ".join(str(text).replace("``", "`").split())
    return found


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def write_schemas() -> None:
    """Write all schemas, but for a published one that would change without its version."""
    texts = {file.schema_file: schema_text(file) for file in FILES}
    texts[SCHEMAS / f"leaderboard-{BOARD_SCHEMA}.json"] = _text(board_schema())
    for path, text in texts.items():
        if path.exists() and path.read_text(encoding="utf-8") != text:
            sys.exit(f"what {path.name} describes has another form now: raise its version")
        path.write_text(text, encoding="utf-8")


def main(names: Sequence[str]) -> None:
    """Write the schemas, or print the fields of the files that are named."""
    known = {file.name: file for file in FILES}
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"unknown file {unknown[0]!r}; choose of {', '.join(known)}")
    sys.stdout.writelines(section(known[name]) for name in names)
    if not names:
        write_schemas()


if __name__ == "__main__":
    main(sys.argv[1:])
