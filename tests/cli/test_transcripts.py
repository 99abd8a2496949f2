"""Transcripts through the command line: kept, redacted, shown, and checked against the model."""

import pytest
import torch

from agentgym.evaluation.log.runfiles import read_episodes, read_run
from agentgym.evaluation.log.transcripts import TRANSCRIPTS_FILE, read_transcripts
from agentgym.inference.models.tiny import tiny_model, word_tokenizer
from agentgym.inference.policy.saved import SavedAgent, Training
from agentgym.prompts.settings import Prompting
from tests.cli.conftest import ENV
from tests.saved_agents import save_agent
from tests.suite_texts import env_table, suite_text

SUITE = suite_text("talk", env_table(ENV, 4, split="train", kwargs={"max_steps": 5}), seed=3, attempts=1)


@pytest.fixture
def suite(tmp_path):
    path = tmp_path / "talk.toml"
    path.write_text(SUITE)
    return path


def save(folder, seed=0):
    training = Training(
        env_id=ENV,
        algorithm="grpo",
        base_model="tiny",
        seed=0,
        run="talker",
        iterations=1,
        episodes=1,
        tokens=1,
    )
    prompting = Prompting(wording="terse", answer="think-action", history=1, max_tokens=6)
    model = tiny_model("0.1m", word_tokenizer(["right"]), context=3000, seed=seed)
    save_agent(folder, model, SavedAgent(prompting, training))
    return folder


@pytest.fixture
def talked(cli, suite, tmp_path):
    """Return a function that benches a talking model and returns the run's folder."""
    torch.set_num_threads(1)
    save(tmp_path / "model")

    def bench(*flags, out="runs"):
        words = ("bench", suite, "--out", tmp_path / out, "--agent", "talker", "--model", tmp_path / "model")
        code, said, _ = cli(*words, "--no-baselines", "--no-verify", *flags)
        assert code == 0
        (folder,) = (tmp_path / out / "talk").iterdir()
        assert said == f"{folder}\n"
        return folder

    return bench


def test_a_model_is_checked_by_its_weights(cli, refused, talked, suite, tmp_path):
    folder = talked()
    verify = ("verify", folder, "--suite", suite)
    code, out, _ = cli(*verify, "--model", tmp_path / "model", "--sample", 9, "--sample-seed", 1)
    assert code == 0, out
    assert out.startswith("model-checked: ")
    assert "; 9 of " in out
    assert "responses recomputed, log-probabilities differ by at most" in out
    code, out, _ = cli(*verify, "--model", save(tmp_path / "other", seed=1))
    assert code == 1
    assert "model: other: weights_sha256 is" in out
    assert "go with --model: name the model's directory" in refused(*verify, "--sample", 9)
    assert "at least 1, got 0" in refused(*verify, "--model", tmp_path / "model", "--sample", 0)
    assert "the model directory" in refused(*verify, "--model", tmp_path / "nowhere")


def test_transcripts_can_be_left_out_and_asked_for(refused, cli, talked, suite, tmp_path):
    folder = talked("--no-transcripts", out="bare")
    assert not (folder / TRANSCRIPTS_FILE).exists()
    model = ("--model", tmp_path / "model")
    assert "bench with --transcripts, or leave out --model" in refused(
        "verify", folder, "--suite", suite, *model
    )
    cli("bench", suite, "--out", tmp_path / "random", "--agent", "random", "--no-baselines", "--transcripts")
    (folder,) = (tmp_path / "random" / "talk").iterdir()
    assert (folder / TRANSCRIPTS_FILE).exists()
    assert "have no weights to check" in refused("verify", folder, "--suite", suite, *model)


def test_what_a_pattern_matches_is_not_written(refused, cli, talked, suite):
    folder = talked("--redact", "Answer [a-z]+", "--redact", "nobody says this")
    assert "Answer" not in (folder / TRANSCRIPTS_FILE).read_text()
    record = read_transcripts(folder)[0]
    assert record.messages(0)[0].text.startswith("[redacted: pattern 1] two parts.")
    assert [found.pattern for found in record.redactions] == ["pattern 1"]
    assert set(record.prompt_ids()) == {None}
    assert cli("verify", folder, "--suite", suite)[0] == 0
    assert "'(' is not a regular expression" in refused("bench", suite, "--redact", "(")


def test_view_shows_what_was_sent_said_and_read(cli, talked, monkeypatch):
    folder = talked()
    episode = read_episodes(folder)[0]
    record = next(record for record in read_transcripts(folder) if record.sha256 == episode.transcript)
    code, out, err = cli("view", folder, "--episode", episode.id)
    assert (code, err) == (0, "")
    assert out.count("[user]") == out.count("[response]") == episode.length
    assert record.messages(0)[0].text.splitlines()[0] in out
    assert out.count("format error: ") == episode.format_errors > 0
    assert f"format error: {record.steps[0].format_error}  (" in out
    assert f"{record.steps[0].prompt_tokens} + {record.steps[0].completion_tokens} tokens" in out
    one = cli("view", folder, "--episode", episode.id, "--step", 1)[1]
    assert one.count("[user]") == 1
    (folder / TRANSCRIPTS_FILE).unlink()
    code, out, _ = cli("view", folder, "--episode", episode.id)
    assert code == 0
    assert "[user]" not in out
    assert read_run(folder).transcripts_sha256


def test_format_errors_are_counted_apart_from_invalid_actions(cli, talked, suite, tmp_path):
    talked()
    page = tmp_path / "page.md"
    words = ("--out", tmp_path / "runs", "--agent", "random", "--agent", "oracle", "--leaderboard", page)
    assert cli("bench", suite, *words)[0] == 0
    heads = [line for line in page.read_text().splitlines() if "Invalid actions %" in line]
    assert all("Format errors %" in head for head in heads)
    assert heads
