"""Run the list of checks of one GPU and write its report: ``benchmarks/gpu/one_card.sh``.

Each check is a process of its own with a limit of time; its result is written as soon as it ends, and one
that has passed is not run again. On a processor the list is the same with smaller models: its dry run.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from agentgym.io.files import replace_file
from agentgym.io.provenance import here_and_now
from benchmarks.gpu.checks import Check, checks, ratios, resume_after_kill

PAGE = "report.md"
RESULTS = "report.json"
LIMIT = 900.0
"""Seconds of a check."""


def run_check(check: Check, folder: Path) -> dict[str, Any]:
    """Run a check's command; return its end, seconds, and the figures that it left."""
    folder.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    if check.missing:
        return {"end": "left out", "seconds": 0.0, "error": check.missing, "figures": {}}
    error = ""
    try:
        if check.killed_after:
            error = resume_after_kill(check, folder, LIMIT)
        else:
            done = subprocess.run(check.command, capture_output=True, text=True, timeout=LIMIT, check=False)
            (folder / "output.txt").write_text(done.stdout + done.stderr)
            if done.returncode:
                error = (
                    done.stderr.strip() or done.stdout.strip() or f"exit {done.returncode}"
                ).splitlines()[-1]
        figures = {} if error else check.figures(folder)
    except subprocess.TimeoutExpired:
        error, figures = f"not over after {LIMIT:.0f} s", {}
    except (OSError, ValueError, KeyError, IndexError) as caught:
        error, figures = f"{type(caught).__name__}: {caught}", {}
    end = "failed" if error else "passed"
    return {"end": end, "seconds": time.perf_counter() - began, "error": error, "figures": figures}


def page(report: dict[str, Any]) -> str:
    """Return the report in Markdown."""
    lines = [
        f"# One card: {report['device']}",
        "",
        f"`benchmarks/gpu/one_card.sh`, {report['when']}, {report['versions']}, commit {report['commit']}.",
        "",
        "| check | what | end | seconds | expected | found |",
        "|---|---|---|---:|---|---|",
    ]
    for name, result in report["checks"].items():
        found = {**ratios(name, report["checks"]), **result["figures"]}
        shown = "; ".join(f"{key} {value:.4g}" for key, value in found.items())
        detail = shown or result["error"].replace("|", "/")
        cells = (name, result["what"], result["end"], f"{result['seconds']:.0f}", result["expected"], detail)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def device_name(device: str) -> str:
    """Return the name of the card, or of the processor."""
    import torch

    if device == "cuda":
        return torch.cuda.get_device_name()
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    found = (line.partition(": ")[2] for line in lines if line.startswith("model name"))
    return f"{next(found, platform.machine())} (dry run)"


def main() -> int:
    """Run what the command line asks for; 1 where a check failed."""
    parser = argparse.ArgumentParser(prog="benchmarks/gpu/one_card.sh", description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default="", help="directory of a pretrained model")
    parser.add_argument("--minutes", type=float, default=60.0, help="no check begins after them")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these checks")
    parser.add_argument("--list", action="store_true", help="print the checks")
    options = parser.parse_args()
    found = checks(options.device, options.model, options.out)
    unknown = set(options.only) - {check.name for check in found}
    if unknown:
        parser.error(f"no check {sorted(unknown)[0]!r}; --list prints them")
    chosen = [check for check in found if not options.only or check.name in options.only]
    if options.list:
        for check in chosen:
            print(f"{check.name:24} {check.what}{f' ({check.missing})' if check.missing else ''}")
        return 0
    return run_list(chosen, options.device, options.out, options.minutes)


def run_list(chosen: list[Check], device: str, out: Path, minutes: float) -> int:
    """Run the checks that have not passed yet; write the report after each."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / RESULTS
    results = json.loads(path.read_text())["checks"] if path.exists() else {}
    until = time.monotonic() + 60 * minutes
    for check in chosen:
        if results.get(check.name, {}).get("end") == "passed":
            continue
        if time.monotonic() > until:
            print(f"{check.name}: not begun, the time is over", flush=True)
            continue
        result = run_check(check, out / check.name)
        results[check.name] = {"what": check.what, "expected": check.expected, **result}
        print(f"{result['end']:8} {result['seconds']:6.1f} s  {check.name}  {result['error']}", flush=True)
        found = ((name, _version(name)) for name in ("torch", "transformers", "vllm"))
        report = {
            "device": device_name(device),
            "when": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            "versions": ", ".join(f"{name} {number}" for name, number in found if number),
            "commit": here_and_now().commit or "unknown",
            "checks": results,
        }
        replace_file(path, json.dumps(report, indent=1) + "\n")
        replace_file(out / PAGE, page(report))
    print(f"report: {out / PAGE}", flush=True)
    return int(any(result["end"] == "failed" for result in results.values()))


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
