"""Transcripts: compact, exact, redacted, and refused where a line is not as it was written."""

import json
from dataclasses import replace

import pytest

from agentgym.core.types import Completion, Message, Step, Trajectory
from agentgym.errors import UsageError
from agentgym.evaluation.log.redaction import Redaction, Redactor
from agentgym.evaluation.log.results import record_of
from agentgym.evaluation.log.transcripts import (
    TRANSCRIPTS_FILE,
    check_transcript,
    find_transcript,
    has_transcript,
    keep_transcripts,
    parse_transcripts,
    read_transcripts,
    transcript_of,
)
from agentgym.evaluation.suites.suite import SuiteEnv

SYSTEM = Message("system", "You are in a corridor.\n\nAnswer with an action.")
ENV = SuiteEnv("tests/Corridor-v0", "Corridor", split="test", tasks=1)


def completion(number, action="right", **fields):
    """Make an answer; prompts share their beginning and their end."""
    user = Message("user", f"You are at cell {number}.\n\nActions: left, right")
    response_ids = (40 + number, 2)
    return Completion(
        **{
            "action": action,
            "text": action,
            "prompt_ids": (1, 2, 3, *range(10, 11 + number), 7, 8),
            "response_ids": response_ids,
            "logprobs": (-0.6931471824645996, -1e-8),
            "prompt_tokens": 6 + number,
            "completion_tokens": 2,
            "seconds": 0.12345678,
            "cost": 0.25,
            "messages": (SYSTEM, user),
        }
        | fields
    )


def trajectory(*completions, unplayed=None):
    steps = tuple(
        Step("", "0" * 32, ("left", "right"), answer, 0.0, "1" * 32, True, False, False)
        for answer in completions
    )
    return Trajectory(
        env_id=ENV.id,
        task_id="a" * 32,
        task_type="",
        seed=5,
        rollout=1,
        initial_hash="0" * 32,
        steps=steps,
        final_observation="",
        won=False,
        score=0.0,
        progress=0.0,
        end_reason="step_limit" if unplayed is None else unplayed.error,
        unplayed=unplayed,
    )


PLAYED = trajectory(
    completion(0),
    completion(1, "left"),
    completion(2, "", text="<action>left", format_error="an <action> that is not closed"),
)


def record(played=PLAYED, **options):
    return transcript_of(played, "Corridor", 1, Redactor(**{"environ": {}} | options))


def test_a_transcript_gives_back_what_was_sent_and_sampled():
    made = record()
    for number, step in enumerate(PLAYED.steps):
        assert made.messages(number) == step.completion.messages
        assert made.steps[number].response == step.completion.text
        assert made.steps[number].action == step.action
        assert made.steps[number].tokens.response_ids == step.completion.response_ids
        assert made.steps[number].seconds == 0.123457
    assert list(made.prompt_ids()) == [step.completion.prompt_ids for step in PLAYED.steps]
    assert made.format_errors == 1
    assert made.redactions == ()


def test_equal_texts_and_equal_tokens_stand_once():
    made = record()
    assert made.texts == (
        "You are in a corridor.",
        "Answer with an action.",
        "You are at cell 0.",
        "Actions: left, right",
        "You are at cell 1.",
        "You are at cell 2.",
    )
    assert [message.parts for message in made.steps[2].messages] == [(0, 1), (5, 3)]
    assert [(p.start, p.ids, p.end) for p in (step.tokens.prompt for step in made.steps)] == [
        (0, (1, 2, 3, 10, 7, 8), 0),
        (4, (11,), 2),
        (5, (12,), 2),
    ]


def test_log_probabilities_are_float32_in_few_digits():
    assert '"logprobs":[-0.6931472,-1e-08]' in record().line


def test_a_line_is_read_back_and_names_its_episode():
    made = record()
    ((number, read),) = parse_transcripts(f"{made.line}\n".encode())
    assert (number, read) == (1, made)
    assert read.sha256 == made.sha256
    episode = replace(record_of(PLAYED, ENV), transcript=made.sha256)
    assert list(check_transcript(made, episode)) == []


def test_an_answer_that_was_not_played_is_the_last_step():
    played = trajectory(completion(0), unplayed=Completion("", error="context_limit"))
    made = record(played)
    assert [step.error for step in made.steps] == ["", "context_limit"]
    assert made.steps[1].tokens is None
    assert list(check_transcript(made, record_of(played, ENV))) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task_id": "b" * 32}, "task_id is"),
        ({"attempt": 2}, "attempt is 1 in the transcript, 2 in the episode"),
        ({"actions": ("right", "left", "left")}, "other actions than the 3 that were played"),
        ({"prompt_tokens": 22}, "prompt_tokens sum to 21 in the transcript, 22 in the episode"),
        ({"completion_tokens": 5}, "completion_tokens sum to 6"),
        ({"cost": 0.5}, "cost sums to 0.75 in the transcript, 0.5 in the episode"),
        ({"format_errors": 0}, "1 format errors, the episode 0"),
    ],
)
def test_a_transcript_of_another_episode_is_told(change, message):
    problems = list(check_transcript(record(), replace(record_of(PLAYED, ENV), **change)))
    assert any(message in problem for problem in problems), problems


def test_errors_and_token_counts_are_checked():
    episode = record_of(PLAYED, ENV)
    made = record()
    failed = replace(made, steps=(replace(made.steps[0], error="agent_error"), *made.steps[1:]))
    assert any("errors at the steps [(0, 'agent_error')]" in one for one in check_transcript(failed, episode))
    tokens = replace(made.steps[2].tokens, logprobs=(-1.0,))
    short = replace(made, steps=(*made.steps[:2], replace(made.steps[2], tokens=tokens)))
    assert list(check_transcript(short, episode)) == [
        "step 2: 2 token ids and 1 log-probabilities of 2 completion tokens"
    ]


def test_secrets_are_redacted_with_their_tokens():
    secret = "sk-0123456789abcdefghij"
    sent = replace(completion(1), messages=(SYSTEM, Message("user", f"The note says {secret}.")))
    said = completion(2, text=f"I read {secret}")
    made = record(trajectory(completion(0), sent, said, completion(3)), patterns=["cell 0"])
    assert secret not in made.line
    assert made.redactions == (Redaction("API key", 2), Redaction("pattern 1", 1))
    assert made.messages(1)[1].text == "The note says [redacted: API key]."
    assert made.steps[2].response == "I read [redacted: API key]"
    assert [step.tokens is None for step in made.steps] == [False, False, True, False]
    assert [ids is None for ids in made.prompt_ids()] == [True, True, True, False]
    assert made.steps[1].tokens.response_ids == (41, 2)


def test_half_a_surrogate_pair_becomes_a_question_mark():
    made = record(trajectory(completion(0, text="a\ud800b")))
    assert made.steps[0].response == "a?b"
    assert made.steps[0].tokens is None


def test_only_episodes_of_models_have_a_transcript():
    assert has_transcript(PLAYED)
    assert has_transcript(trajectory(Completion("", messages=(SYSTEM,))))
    assert not has_transcript(trajectory(Completion("left"), Completion("left", text="typed")))


# ---- the file ----------------------------------------------------------------------------------


def mangled(change):
    table = json.loads(record().line)
    change(table)
    return json.dumps(table, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{}", "key 'env' is missing"),
        (b"[" * 100_000, "nested more than 64 deep"),
        (record().line.encode() + b" ", "not written as records are"),
        (mangled(lambda table: table["texts"].append("spare")), "name 6 texts, not each of the 7"),
        (mangled(lambda table: table["texts"].__setitem__(0, "Actions: left, right")), "a text twice"),
        (mangled(lambda table: table["steps"][0]["messages"][0]["parts"].append(9)), "name 7 texts"),
        (
            mangled(lambda table: table["steps"][1]["tokens"]["prompt"].update(start=5)),
            "step 1: the prompt before has only 6 tokens",
        ),
        (
            mangled(lambda table: table["steps"][1]["tokens"]["prompt"].update(end=-1)),
            "step 1: the prompt before has only 6 tokens",
        ),
        (
            mangled(lambda table: table["steps"][1]["tokens"]["prompt"]["ids"].append(3)),
            "step 1: 8 token ids of 7 prompt tokens",
        ),
        (
            mangled(lambda table: table["steps"][0]["messages"][0].update(parts=[0] * 5_000)),
            "a message has more than 20,000 characters",
        ),
    ],
)
def test_a_damaged_line_is_refused_by_its_number(tmp_path, monkeypatch, line, message):
    monkeypatch.setattr("agentgym.evaluation.log.transcripts._MAX_MESSAGE_LENGTH", 20_000)
    (tmp_path / TRANSCRIPTS_FILE).write_bytes(record().line.encode() + b"\n" + line + b"\n")
    with pytest.raises(UsageError, match=f"{TRANSCRIPTS_FILE}, line 2: malformed: .*{message}"):
        read_transcripts(tmp_path)


def test_half_a_line_is_refused(tmp_path):
    (tmp_path / TRANSCRIPTS_FILE).write_text(f"{record().line}\n{record().line}")
    with pytest.raises(UsageError, match="line 2: the line is cut off"):
        read_transcripts(tmp_path)
    with pytest.raises(UsageError, match="bench with --transcripts to have them"):
        read_transcripts(tmp_path / "nowhere")


def test_an_episode_s_transcript_is_found_by_its_sha256(tmp_path):
    first, second = record(), record(trajectory(completion(4)))
    (tmp_path / TRANSCRIPTS_FILE).write_text(f"{first.line}\n{second.line}\n")
    assert find_transcript(tmp_path, second.sha256) == second
    assert find_transcript(tmp_path, "") is None
    with pytest.raises(UsageError, match="lacks the transcript 000000000000; restore the file"):
        find_transcript(tmp_path, "0" * 64)


def test_lines_that_no_episode_names_are_dropped(tmp_path):
    first, second = record(), record(trajectory(completion(4)))
    path = tmp_path / TRANSCRIPTS_FILE
    keep_transcripts(tmp_path, [""])
    assert not path.exists()
    path.write_text(f"{first.line}\n{second.line}\n{second.line}\n")
    keep_transcripts(tmp_path, [second.sha256, ""])
    assert read_transcripts(tmp_path) == [second]
    with pytest.raises(UsageError, match="lacks 1 transcripts that episodes name"):
        keep_transcripts(tmp_path, [first.sha256, second.sha256])
    keep_transcripts(tmp_path, [])
    assert not path.exists()
