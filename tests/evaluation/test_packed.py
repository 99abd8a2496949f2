"""How a packed run writes what an agent typed: as passages of what it was shown."""

import lzma
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentgym.errors import UsageError
from agentgym.evaluation.verify.packed import MAX_REST, MAX_TYPED, MIN_PASSAGE_LENGTH, _Shown, read_packed

FIRST, SECOND = "Question: where is the red house?", "[1] The red house is in Ulm."
ADMISSIBLE = ("answer[yes]", "answer[no]")
HIDDEN = ("short", "a title that nothing shows", "a title that nothing shows, either")


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> _Shown:
    monkeypatch.setattr(
        "agentgym.evaluation.verify.packed.load_reference", lambda *_, **__: lambda game: iter(HIDDEN)
    )
    shown = _Shown(SimpleNamespace(suite_spec=SimpleNamespace(oracle_only="tests:titles")))
    for observation in (FIRST, {"text": SECOND, "turn": 1}):
        replay = SimpleNamespace(observation=observation, info={"admissible_actions": ADMISSIBLE})
        assert shown.add(replay) == ADMISSIBLE
    return shown


@pytest.mark.parametrize(
    ("action", "pieces"),
    [
        ("search[the red house]", ["search[", [19, 13], "]"]),
        ("house?\n[1] The", [[27, 14]]),
        ("search[Ulm.]", ["search[Ulm.]"]),
        ("", []),
        ("search[a title that nothing shows]", ["search[", [1], "]"]),
        ("search[a title that nothing shows, either]", ["search[", [2], "]"]),
        ("a title that nothing shows; a title that nothing shows", [[1], "; ", [1]]),
        ("a title of no text, the red house", None),
        ("short and something else", ["short and something else"]),
    ],
)
def test_typed_text_is_written_as_the_longest_passages(shown: _Shown, action: str, pieces: object) -> None:
    written = shown.pieces(action)
    assert pieces in (written, None)
    assert shown.text(written, ADMISSIBLE, MAX_TYPED) == action


@given(st.text(st.sampled_from("the red house[1]?\n Q"), max_size=40))
@example(FIRST + SECOND)
def test_any_text_comes_out_again(action: str) -> None:
    shown = _Shown(SimpleNamespace(suite_spec=SimpleNamespace(oracle_only=None)))
    shown.add(SimpleNamespace(observation=f"{FIRST}{SECOND}", info={"admissible_actions": ()}))
    pieces = shown.pieces(action)
    assert shown.text(pieces, (), MAX_TYPED) == action
    assert all(piece[1] >= MIN_PASSAGE_LENGTH for piece in pieces if isinstance(piece, list))


@pytest.mark.parametrize(
    "piece", [0, 1, "answer[yes]", ["ans", "wer[", [0, 1], "]"], [[0, 63]], [[62, 1]], [[0]]]
)
def test_what_names_a_text_is_read(shown: _Shown, piece: object) -> None:
    assert shown.text(piece, ADMISSIBLE, MAX_TYPED)


@pytest.mark.parametrize(
    "piece",
    [-1, 2, True, 1.0, None, {}, [None], [3.0], [[-1]], [[3]], [[True]], [[0, 0]], [[0, -1]], [[-1, 3]],
     [[0, 64]], [[63, 1]], [[0, True]], [[0, 1, 2]], [[]], [["a"]]],
)  # fmt: skip
def test_what_names_none_is_refused(shown: _Shown, piece: object) -> None:
    with pytest.raises(
        UsageError, match=r"names none that is admissible|which is not part of what was shown"
    ):
        shown.text(piece, ADMISSIBLE, MAX_TYPED)


def test_actions_have_the_room_that_is_left(shown: _Shown) -> None:
    assert shown.text([[0, 4], "abc"], ADMISSIBLE, 7) == "Quesabc"
    with pytest.raises(UsageError, match="its actions have more than 67,108,864 characters"):
        shown.text([[0, 4], "abc"], ADMISSIBLE, 6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a packed run; name a file that"),
        (b'["format"]\n', "not a packed run; name a file that"),
        (b'{"format": "agentgym archive", "schema": 1, "run": {}}\n', "not a packed run; name a file that"),
        (
            b'{"format": "agentgym packed run", "schema": 0, "run": {}}\n',
            "schema 0 is neither 1 nor 2; pack the run again",
        ),
    ],
)
def test_files_that_are_no_packed_run(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.run.xz"
    path.write_bytes(lzma.compress(content))
    with pytest.raises(UsageError, match=message):
        read_packed(path.read_bytes(), str(path))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UsageError, match="is cut off, or over 256 MiB"):
        read_packed(path.read_bytes(), str(path))


def test_titles_are_looked_for_where_much_is_left(shown: _Shown) -> None:
    """They are all texts of a corpus: what is short is written out instead."""
    assert shown.pieces("x" * (MAX_REST - 1)) == ["x" * (MAX_REST - 1)]
