"""Logs of iterations: files that resume exactly, lines for people, and other programs' formats."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from agentgym.errors import UsageError
from agentgym.history.console import LINES_PER_HEADING, ConsoleLog
from agentgym.history.log import LOGS, JsonlLog, Logs, TensorBoardLog, WandbLog, make_logs
from agentgym.history.run import CONFIG_FILE, METRICS_FILE, read_metrics
from tests.iterations import evaluated, make_metrics, make_run

RECORDS = make_run(5, every=2)


def log_all(log, records):
    for record in records:
        log.write(record)
    log.close()


# ---- the file ------------------------------------------------------------------------------------


def test_a_line_is_in_the_file_once_it_is_written(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("os.fsync", lambda fd: synced.append(os.fstat(fd).st_size))
    log = JsonlLog(tmp_path)
    for count, record in enumerate(RECORDS, 1):
        log.write(record)
        assert read_metrics(tmp_path) == RECORDS[:count]
        assert (tmp_path / METRICS_FILE).stat().st_size in synced
    log.close()


@pytest.mark.parametrize("start", range(6))
@pytest.mark.parametrize("rest", ["", '{"iteration": 6, "ver', "damaged\n"])
def test_a_resumed_file_is_that_of_a_run_never_stopped(tmp_path, start, rest):
    log_all(JsonlLog(tmp_path), RECORDS)
    path = tmp_path / METRICS_FILE
    whole = path.read_bytes()
    path.write_bytes(whole + rest.encode())
    log = JsonlLog(tmp_path, start=start)
    assert read_metrics(tmp_path) == RECORDS[:start]
    log_all(log, RECORDS[start:])
    assert path.read_bytes() == whole


def test_a_run_goes_on_only_with_all_lines(tmp_path):
    with pytest.raises(UsageError, match="the run was not logged there"):
        JsonlLog(tmp_path, start=1)
    log_all(JsonlLog(tmp_path), RECORDS[:3])
    whole = (tmp_path / METRICS_FILE).read_bytes()
    with pytest.raises(UsageError, match="ends with iteration 3, but the run goes on after 4"):
        JsonlLog(tmp_path, start=4)
    (tmp_path / METRICS_FILE).write_bytes(whole.replace(b'"iteration": 2', b'"iteration": "2"'))
    with pytest.raises(UsageError, match="line 2: iteration: expected an integer"):
        JsonlLog(tmp_path, start=3)


# ---- the console ---------------------------------------------------------------------------------


def shown(records, *, width=100, terminal=False, iterations=40):
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=terminal, legacy_windows=False)
    log_all(ConsoleLog(iterations, console=console), records)
    return file.getvalue()


def test_lines_for_people():
    *legend, heading, before = shown(RECORDS).splitlines()[: -len(RECORDS)]
    lines = shown(RECORDS).splitlines()[-len(RECORDS) :]
    assert " ".join(legend).startswith(
        "success: episodes won in training.  eval: episodes won in evaluation."
    )
    assert heading.split() == [
        *("iter", "success", "eval", "usable", "logp", "diff", "kl", "clip", "tok/s"),
        *("secs", "model", "update", "credit", "env", "eval", "sync"),
    ]
    assert before.split() == ["0", "0.0%"]
    numbers = [
        "50.0%",
        "3.0e-07",
        "2.0e-04",
        "12.5%",
        "2,000",
        "2.00",
        "0.50",
        "0.75",
        "0.25",
        "0.12",
        "0.00",
    ]
    assert lines[0].split() == ["1", "1.0%", *numbers, "0.06"]
    assert lines[1].split() == ["2", "2.0%", "1.0%", *numbers, "0.06"]


def test_lines_are_plain_and_fit_where_no_terminal_is():
    large = make_metrics(
        12345,
        success=1.0,
        usable_fraction=1.0,
        kl=-1.5e-3,
        tokens_per_second=123_456.0,
        evaluation=evaluated(1.0),
    )
    out = shown([*RECORDS, large], width=40)
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 100
    assert out.splitlines()[-1].split()[:8] == [
        *("12345", "100.0%", "100.0%", "100.0%", "3.0e-07", "-1.5e-03", "12.5%", "123k")
    ]


def test_the_heading_comes_again():
    out = shown(make_run(2 * LINES_PER_HEADING + 1))
    assert out.count("success: episodes won in training.") == 1
    lines = out.splitlines()
    first, *others = (i for i, line in enumerate(lines) if line.split()[:2] == ["iter", "success"])
    assert lines[0].startswith("success: ")
    assert others == [first + LINES_PER_HEADING + 1, first + 2 * (LINES_PER_HEADING + 1)]


@pytest.mark.parametrize("width", [50, 80, 100, 200])
def test_a_terminal_shows_a_bar_and_what_fits(width):
    out = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown(RECORDS, width=width, terminal=True, iterations=5))
    lines = re.split(r"[\r\n]+", out)
    assert max(map(len, lines)) <= width
    assert any("5/5" in line and line.startswith("training") for line in lines)
    assert sum(line.split()[:1] == ["5"] for line in lines) == 1
    assert ("sync" in out) == (width >= 100)


def test_a_resumed_bar_begins_where_the_run_does():
    file = io.StringIO()
    log = ConsoleLog(40, start=30, console=Console(file=file, width=100, force_terminal=True))
    log.close()
    assert "30/40" in file.getvalue()


# ---- TensorBoard and Weights & Biases ------------------------------------------------------------


def test_tensorboard_shows_what_was_logged(tmp_path):
    log_all(TensorBoardLog(tmp_path), RECORDS[:4])
    log_all(TensorBoardLog(tmp_path, start=2), [make_metrics(3, success=0.75)])
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("success")] == [
        (1, pytest.approx(0.01)),
        (2, pytest.approx(0.02)),
        (3, 0.75),
    ]
    assert [(e.step, e.value) for e in events.Scalars("evaluation/success")] == [
        (0, 0.0),
        (2, pytest.approx(0.01)),
    ]
    expected = set(RECORDS[1].scalars())
    assert set(events.Tags()["scalars"]) == expected


class FakeWandb:
    """Stands for the module: keeps what it is told."""

    def __init__(self):
        self.begun, self.logged, self.finished = [], [], 0

    def init(self, **settings):
        self.begun.append(settings)
        return SimpleNamespace(log=self._log, finish=self._finish)

    def _log(self, numbers, *, step):
        self.logged.append((step, numbers))

    def _finish(self):
        self.finished += 1


def test_wandb_is_told_everything_and_resumes_under_one_id(tmp_path, monkeypatch):
    wandb = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    (tmp_path / CONFIG_FILE).write_text('{"algorithm": "grpo"}')
    log_all(WandbLog(tmp_path), RECORDS[:2])
    log_all(WandbLog(tmp_path, start=2), RECORDS[2:])
    log_all(WandbLog(tmp_path), [])
    first, again, another = wandb.begun
    assert first["id"] == again["id"] != another["id"]
    assert first["config"] == {"algorithm": "grpo"}
    assert (first["resume"], first["name"], wandb.finished) == ("allow", tmp_path.name, 3)
    assert [step for step, _ in wandb.logged] == [0, 1, 2, 3, 4, 5]
    assert wandb.logged[0][1] == {
        "evaluation/episodes": 10,
        "evaluation/success": 0,
        "evaluation/score": 0,
    }
    assert wandb.logged[2][1] == RECORDS[1].scalars()


def test_wandb_itself_takes_it(tmp_path):
    code = f"""
from pathlib import Path
from agentgym.history.log import WandbLog
from tests.iterations import make_run
log = WandbLog(Path({str(tmp_path)!r}))
for record in make_run(3, every=1):
    log.write(record)
log.close()
"""
    places = {f"WANDB_{name}_DIR": str(tmp_path / name) for name in ("CONFIG", "CACHE", "DATA")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=Path(__file__).parents[2],
        env=os.environ | places | {"WANDB_MODE": "offline"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    run_id = (tmp_path / "wandb_id.txt").read_text().strip()
    (record,) = tmp_path.glob(f"wandb/offline-run-*-{run_id}/run-{run_id}.wandb")
    assert b"seconds/update" in record.read_bytes()


# ---- by name -------------------------------------------------------------------------------------


def test_logs_by_name(tmp_path, capsys):
    log_all(make_logs(["console", "jsonl"], tmp_path, iterations=5), RECORDS)
    assert read_metrics(tmp_path) == RECORDS
    out, err = capsys.readouterr()
    first, *_ = err.splitlines()
    assert (out, first[:9]) == ("", "success: ")
    assert [line.split()[0] for line in err.splitlines()[-7:]] == ["iter", *"012345"]
    log_all(make_logs([], tmp_path, iterations=5), RECORDS)


def test_bad_names(tmp_path):
    with pytest.raises(
        UsageError, match=r"unknown log 'jsnl' \(did you mean 'jsonl'\?\); choose one of jsonl, "
    ):
        make_logs(["jsnl"], tmp_path, iterations=5)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_missing_packages_name_the_extra(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    closed = []
    monkeypatch.setattr(JsonlLog, "close", lambda log: closed.append(log._journal.close()))
    with pytest.raises(UsageError) as caught:
        make_logs([name, "jsonl"], tmp_path, iterations=5)
    assert str(caught.value).startswith(f"the log '{name}' needs {name}: pip install 'tensorboard")
    assert len(closed) == 1


def test_the_file_is_written_first():
    assert next(iter(LOGS)) == "jsonl"


def test_all_are_closed_even_where_one_fails():
    closed = []

    def fail():
        closed.append("second")
        raise UsageError("no space")

    logs = Logs([SimpleNamespace(close=lambda: closed.append("first")), SimpleNamespace(close=fail)])
    with pytest.raises(UsageError, match="no space"):
        logs.close()
    assert sorted(closed) == ["first", "second"]


def test_lines_are_json(tmp_path):
    log_all(JsonlLog(tmp_path), RECORDS)
    lines = (tmp_path / METRICS_FILE).read_text().splitlines()
    assert [json.loads(line) for line in lines] == [record.to_json() for record in RECORDS]
