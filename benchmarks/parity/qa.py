"""Scores beside those of the official scripts: ``python -m benchmarks.parity.qa --scripts FOLDER``.

The folder holds, at any depth, ``hotpot_evaluate_v1.py`` of github.com/hotpotqa/hotpot,
``2wikimultihop_evaluate_v1.1.py`` of github.com/Alab-NII/2wikimultihop, and ``evaluate_v1.0.py`` with
``metrics/`` of github.com/StonyBrookNLP/musique. Each runs as it is, once on every pair of
`benchmarks.parity.qa_pairs`, without its rounding, and once on all. Ours reads the same records with the
importers' readers. Every number must be the same, to the last bit.

The scripts' numbers are kept (``qa_scores.npz``): CI compares ours with them.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.util
import io
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from agentgym.core.hashing import sha256_json
from agentgym.envs.multihop.data.records import Aliases, parse_aliases, parse_hotpot, parse_musique
from agentgym.envs.multihop.scoring import (
    AnswerScore,
    SetScore,
    joint_score,
    score_answer,
    score_evidence,
    score_supporting_facts,
    score_supporting_paragraphs,
)
from benchmarks.harness.report import machine, parser, publish, table
from benchmarks.parity.qa_pairs import COUNT, SEED, QAPair, draw_pairs

OUT = Path(__file__).with_suffix(".json")
SCORES = OUT.with_name("qa_scores.npz")

PARTS = ("em", "f1", "prec", "recall")

NUMBERS: Mapping[str, tuple[str, ...]] = {
    "hotpotqa": tuple(f"{kind}{part}" for kind in ("", "sp_", "joint_") for part in PARTS),
    "twowiki": tuple(f"{kind}{part}" for kind in ("", "sp_", "evi_", "joint_") for part in PARTS),
    "musique": ("answer_em", "answer_f1", "support_f1"),
}
"""What each script reports, in our order."""

SCALES: Mapping[str, int] = {"hotpotqa": 1, "twowiki": 100, "musique": 1}
"""2WikiMultihopQA's script reports percent."""

DIGITS: Mapping[str, int | None] = {"hotpotqa": None, "twowiki": 2, "musique": 3}
"""What each script rounds to."""

SCRIPTS: Mapping[str, str] = {
    "hotpotqa": "hotpot_evaluate_v1.py",
    "twowiki": "2wikimultihop_evaluate_v1.1.py",
    "musique": "evaluate_v1.0.py",
}

Table = npt.NDArray[np.float64]
"""A row for each pair, a column for each number."""


# ---- ours --------------------------------------------------------------------------------------------


def score_hotpotqa(pair: QAPair) -> list[float]:
    """Return our numbers for HotpotQA."""
    question = parse_hotpot(_without_names(pair.hotpot), "pair", {})
    answer = score_answer(pair.answer, question.answer or "", (), "hotpotqa")
    facts = score_supporting_facts(_tuples(pair.facts), question.facts)
    return _flat(answer, facts, joint_score(answer, facts))


def score_twowiki(pair: QAPair) -> list[float]:
    """Return our numbers for 2WikiMultihopQA."""
    names: Aliases = dict(parse_aliases(line, "names") for line in pair.aliases)
    question = parse_hotpot(pair.hotpot, "pair", names)
    answer = score_answer(pair.answer, question.answer or "", question.aliases, "twowiki")
    facts = score_supporting_facts(_tuples(pair.facts), question.facts, "twowiki")
    evidence = score_evidence(_tuples(pair.evidence), question.evidences)
    return _flat(answer, facts, evidence, joint_score(answer, facts, evidence))


def score_musique(pair: QAPair) -> list[float]:
    """Return our numbers for MuSiQue."""
    question = parse_musique(pair.musique, "pair", {})
    answer = score_answer(pair.answer, question.answer or "", question.aliases, "musique")
    return [answer.em, answer.f1, score_supporting_paragraphs(pair.paragraphs, question.gold).f1]


OURS: Mapping[str, Callable[[QAPair], list[float]]] = {
    "hotpotqa": score_hotpotqa,
    "twowiki": score_twowiki,
    "musique": score_musique,
}


def score_all(pairs: Sequence[QAPair]) -> dict[str, Table]:
    """Return our numbers for every pair, by set."""
    return {name: np.array([score(pair) for pair in pairs]) for name, score in OURS.items()}


def differences(ours: Mapping[str, Table], theirs: Mapping[str, Table]) -> dict[str, int]:
    """Return how many numbers of each set are not the same to the last bit."""
    return {name: int(np.count_nonzero(SCALES[name] * ours[name] != theirs[name])) for name in theirs}


def totals(scores: Mapping[str, Table]) -> dict[str, dict[str, float]]:
    """Return the means of all pairs, added and rounded as each script does."""
    found: dict[str, dict[str, float]] = {}
    for name, rows in scores.items():
        means = [_sum(column) / len(rows) * SCALES[name] for column in rows.T.tolist()]
        if (digits := DIGITS[name]) is not None:
            means = [round(mean, digits) for mean in means]
        found[name] = dict(zip(NUMBERS[name], means, strict=True))
    return found


def _flat(*scores: AnswerScore | SetScore) -> list[float]:
    return [number for score in scores for number in score]


def _sum(numbers: Sequence[float]) -> float:
    """Add one after another: `sum` rounds otherwise from Python 3.12 on."""
    total = 0.0
    for number in numbers:
        total += number
    return total


def _tuples(rows: Sequence[Sequence[Any]]) -> list[Any]:
    return [tuple(row) for row in rows]


def _without_names(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record as HotpotQA has it."""
    return {key: value for key, value in record.items() if not key.endswith("_id") or key == "_id"}


# ---- the scripts -------------------------------------------------------------------------------------


def find_scripts(folder: Path) -> dict[str, Path]:
    """Return the official script of each set.

    Raises:
        ValueError: one is not there.
    """
    found = {}
    for name, file in SCRIPTS.items():
        paths = sorted(folder.rglob(file))
        if not paths:
            raise ValueError(f"no {file} in {folder}: put the official scripts there")
        found[name] = paths[0]
    return found


@contextlib.contextmanager
def load_script(path: Path, *, rounding: bool) -> Iterator[ModuleType]:
    """Run a script as a module.

    Args:
        path: of the script; its folder is searched for its imports.
        rounding: False lets it report whole numbers.
    """
    spec = importlib.util.spec_from_file_location("official_script", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if not rounding:
        module.round = lambda number, digits: number  # type: ignore[attr-defined]
    before = dict(sys.modules)
    sys.modules.setdefault("ujson", json)  # the same for these files, where it is not installed
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(path.parent))
        for name in sys.modules.keys() - before.keys():
            del sys.modules[name]


def run_hotpotqa(script: ModuleType, pairs: Sequence[QAPair], folder: Path) -> list[float]:
    """Return HotpotQA's numbers for some pairs."""
    gold = [_without_names(pair.hotpot) for pair in pairs]
    text = _printed(script.eval, _write(folder, _predictions(pairs)), _write(folder, gold))
    table = ast.literal_eval(text)
    return [float(table[name]) for name in NUMBERS["hotpotqa"]]


def run_twowiki(script: ModuleType, pairs: Sequence[QAPair], folder: Path) -> list[float]:
    """Return 2WikiMultihopQA's numbers for some pairs, each with its own names of entities."""
    gold, lines = [], []
    for number, pair in enumerate(pairs):
        own = {"answer_id": f"{number}/A1"}
        triples = [
            [f"{number}/{a}", relation, f"{number}/{b}"] for a, relation, b in pair.hotpot["evidences_id"]
        ]
        gold.append({**pair.hotpot, **own, "evidences_id": triples})
        lines += [{**line, "Q_id": f"{number}/{line['Q_id']}"} for line in pair.aliases]
    names = folder / "names.json"
    names.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    text = _printed(script.eval, _write(folder, _predictions(pairs)), _write(folder, gold), str(names))
    table = json.loads(text)
    return [float(table[name]) for name in NUMBERS["twowiki"]]


def run_musique(script: ModuleType, pairs: Sequence[QAPair], folder: Path) -> list[float]:
    """Return MuSiQue's numbers for some pairs; to each belongs an unanswerable twin, which must not count."""
    gold, said = [], []
    for pair in pairs:
        for record, answer in (
            (pair.musique, pair.answer),
            ({**pair.musique, "answerable": False}, "nothing"),
        ):
            gold.append(record)
            said.append(
                {
                    "id": record["id"],
                    "predicted_answer": answer,
                    "predicted_support_idxs": pair.paragraphs,
                    "predicted_answerable": record["answerable"],
                }
            )
    files = [folder / "said.jsonl", folder / "gold.jsonl"]
    for file, rows in zip(files, (said, gold), strict=True):
        file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    table = script.evaluate(*map(str, files))
    return [float(table[name]) for name in NUMBERS["musique"]]


OFFICIAL: Mapping[str, Callable[[ModuleType, Sequence[QAPair], Path], list[float]]] = {
    "hotpotqa": run_hotpotqa,
    "twowiki": run_twowiki,
    "musique": run_musique,
}


def run_scripts(
    scripts: Mapping[str, Path], pairs: Sequence[QAPair]
) -> tuple[dict[str, Table], dict[str, dict[str, float]]]:
    """Return the scripts' numbers for every pair, and those for all as they print them."""
    scores, printed = {}, {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for key, path in scripts.items():
            with load_script(path, rounding=False) as script:
                scores[key] = np.array([OFFICIAL[key](script, [pair], folder) for pair in pairs])
            with load_script(path, rounding=True) as script:
                printed[key] = dict(zip(NUMBERS[key], OFFICIAL[key](script, pairs, folder), strict=True))
    return scores, printed


def _predictions(pairs: Sequence[QAPair]) -> dict[str, dict[str, Any]]:
    return {
        "answer": {pair.hotpot["_id"]: pair.answer for pair in pairs},
        "sp": {pair.hotpot["_id"]: pair.facts for pair in pairs},
        "evidence": {pair.hotpot["_id"]: pair.evidence for pair in pairs},
    }


def _write(folder: Path, value: Any) -> str:
    path = folder / ("gold.json" if isinstance(value, list) else "said.json")
    path.write_text(json.dumps(value), encoding="utf-8")
    return str(path)


def _printed(function: Callable[..., None], *arguments: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        function(*arguments)
    return out.getvalue()


# ---- the report --------------------------------------------------------------------------------------


def compare(scripts: Mapping[str, Path]) -> tuple[dict[str, Any], dict[str, Table]]:
    """Run everything; return the report and the scripts' numbers."""
    pairs = draw_pairs()
    ours = score_all(pairs)
    theirs, printed = run_scripts(scripts, pairs)
    means, different = totals(ours), differences(ours, theirs)
    report = {
        "pairs": len(pairs),
        "seed": SEED,
        "pairs_sha256": sha256_json(pairs),
        "scripts": {
            name: {
                "file": path.name,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                "numbers": int(theirs[name].size),
                "differences": different[name],
                "totals": printed[name],
                "totals that differ": sum(means[name][key] != value for key, value in printed[name].items()),
            }
            for name, path in scripts.items()
        },
    }
    return report, theirs


def markdown(report: Mapping[str, Any]) -> str:
    """Write the table."""
    lines = [
        "# Scores beside the official scripts",
        "",
        f"`python -m benchmarks.parity.qa --scripts FOLDER`: {report['pairs']:,} generated questions and "
        f"answers, seed {report['seed']},",
        "scored by the scripts as they are, one by one without their rounding and all together with it,",
        "and by ours. A difference is a number that is not the same to the last bit.",
        "",
    ]
    compared, scores = [], []
    for row in report["scripts"].values():
        cells = (f"`{row['file']}`", f"{row['numbers']:,}", row["differences"])
        compared.append((*cells, len(row["totals"]), row["totals that differ"]))
    lines += [*table(("script", "numbers compared", "differences", "totals", "that differ"), compared), ""]
    columns = (("em", "answer_em"), ("f1", "answer_f1"), ("sp_f1", "support_f1"), ("joint_f1",))
    for row in report["scripts"].values():
        found = row["totals"]
        shown = [next((f"{found[name]:.3f}" for name in names if name in found), "") for names in columns]
        scores.append((f"`{row['file']}`", *shown))
    lines += table(("script", "EM", "F1", "supporting F1", "joint F1"), scores)
    return "\n".join(lines) + "\n"


def read_recorded() -> dict[str, Table]:
    """Return the scripts' numbers, as they were recorded."""
    with np.load(SCORES) as archive:
        return {name: archive[name] for name in SCRIPTS}


def main() -> int:
    """Compare, and write the report and the scripts' numbers; 1 where something differs."""
    given = parser(__spec__.name, __doc__)
    given.add_argument("--scripts", type=Path, required=True, metavar="FOLDER", help="the official scripts")
    report, theirs = compare(find_scripts(given.parse_args().scripts))
    rows = report["scripts"].values()
    different = sum(row["differences"] + row["totals that differ"] for row in rows)
    print(f"{sum(row['numbers'] for row in rows):,} numbers of {COUNT:,} pairs, {different} differences")
    publish(OUT, {"machine": machine(), **report}, markdown(report))
    with SCORES.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **theirs)
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
