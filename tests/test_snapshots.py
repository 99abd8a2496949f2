"""A snapshot's bytes travel between processes, and nothing that they say is restored unchecked."""

import hashlib
import json
import random
import subprocess
import sys
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.checking.evidence import first_difference
from agentgym.core.encoding import decode, encode, typed
from agentgym.core.types import SNAPSHOT_MARK, NamedTask, Snapshot
from agentgym.envs.webshop.engine.history import Past
from agentgym.errors import UsageError
from agentgym.registration import open_env, open_vector
from tests.corridor import CorridorEnv, CorridorVectorEnv

WAYS = {
    "Sokoban": ("agentgym/Sokoban-v0", {"split": "test"}),
    "Sokoban, as upstream": ("agentgym/Sokoban-v0", {"split": "test", "parity": "gym-sokoban"}),
    "VisualSokoban": ("agentgym/VisualSokoban-v0", {"split": "test", "tile_size": "tiny"}),
    "EZPoints": ("agentgym/EZPoints-v0", {"split": "test"}),
    "ALFWorld": ("agentgym/ALFWorld-v0", {"split": "valid_seen"}),
    "HotpotQA": ("agentgym/HotpotQA-v0", {"split": "test", "untagged": "invalid"}),
    "TwoWiki, by choosing": ("agentgym/TwoWiki-v0", {"split": "test", "actions": "candidates"}),
    "WebShop": ("agentgym/WebShop-v0", {"split": "test"}),
    "WebShop, with a past": (
        "agentgym/WebShop-v0",
        {"split": "test", "previous_observations": 2, "previous_actions": 2, "noise": 0.5},
    ),
}


def made(way):
    if way == "corridor":
        return CorridorEnv()
    env_id, options = WAYS[way]
    return open_env(env_id, options=options)


def made_vector(way):
    if way == "corridor":
        return CorridorVectorEnv(2)
    env_id, options = WAYS[way]
    return open_vector(env_id, 2, options=options)


def walked(env, steps, seed=0):
    """Play at random and return the snapshots on the way."""
    draw = random.Random(seed)
    env.reset(seed=seed)
    snapshots = [env.snapshot()]
    for _ in range(steps):
        actions = env.admissible_actions()
        if not actions:
            break
        action = draw.choice((*actions, "no such action")).replace("<query>", draw.choice(("lamp", "rug Ü")))
        env.step(action)
        snapshots.append(env.snapshot())
    return snapshots


def fingerprint(env, snapshot):
    """Return what a snapshot is restored to, and how it goes on."""
    seen = [repr(env.restore(snapshot)), env.state_hash()]
    for number in range(4):
        actions = env.admissible_actions()
        if actions:
            seen.append(repr(env.step(actions[number * 7 % len(actions)].replace("<query>", "red lamp"))))
    return hashlib.sha256("\n".join(seen).encode("utf-8", "backslashreplace")).hexdigest()


def read_and_play():
    """In another process: say what became of the bytes that come in, hex digits by way."""
    lines = {}
    for way, sent in json.load(sys.stdin).items():
        env = made(way)
        snapshots = [Snapshot.from_bytes(bytes.fromhex(digits)) for digits in sent]
        lines[way] = [[fingerprint(env, snapshot), snapshot.to_bytes().hex()] for snapshot in snapshots]
    json.dump(lines, sys.stdout)


ALL = (*WAYS, "corridor")


def test_bytes_travel_between_processes():
    sent, expected = {}, {}
    for way in ALL:
        env = made(way)
        snapshots = [snapshot for seed in range(2) for snapshot in walked(env, 12, seed)]
        sent[way] = [snapshot.to_bytes().hex() for snapshot in snapshots]
        expected[way] = [
            [fingerprint(env, snapshot), digits]
            for snapshot, digits in zip(snapshots, sent[way], strict=True)
        ]
    done = subprocess.run(
        [sys.executable, "-c", "from tests.test_snapshots import read_and_play as r; r()"],
        input=json.dumps(sent),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == expected


@pytest.mark.parametrize("way", ALL)
def test_bytes_are_canonical_and_restore_everywhere(way):
    env, other = made(way), made(way)
    envs = made_vector(way)
    envs.reset(seed=9)
    for snapshot in walked(env, 6):
        data = snapshot.to_bytes()
        current = env.restore(snapshot)
        assert first_difference(other.restore(Snapshot.from_bytes(data)), current) is None
        assert first_difference(other.snapshot(), snapshot) is None
        assert other.snapshot().to_bytes() == data
        assert first_difference(envs.restore(1, Snapshot.from_bytes(data))[1], current[1]) is None
        assert envs.snapshot(1).to_bytes() == data


@pytest.mark.parametrize("way", ALL)
def test_every_changed_byte_is_noticed(way):
    data = walked(made(way), 5)[-1].to_bytes()
    draw = random.Random(0)
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= draw.randrange(1, 256)
        with pytest.raises(UsageError, match=r"^[^\n]+$"):
            Snapshot.from_bytes(bytes(changed))
    for cut in range(0, len(data), 3):
        with pytest.raises(UsageError):
            Snapshot.from_bytes(data[:cut])
    with pytest.raises(UsageError):
        Snapshot.from_bytes(data + b"n")


def sealed(body):
    return SNAPSHOT_MARK + body + hashlib.blake2b(body, digest_size=16).digest()


@pytest.mark.parametrize("way", ALL)
def test_forged_bytes_fail_or_are_what_they_say(way):
    env = made(way)
    snapshots = walked(env, 5)
    here = env.snapshot()
    draw = random.Random(0)
    body = snapshots[-1].to_bytes()[len(SNAPSHOT_MARK) : -16]
    restored = 0
    for place in range(len(body)):
        changed = bytearray(body)
        changed[place] ^= draw.choice((1, 2, 128, draw.randrange(1, 256)))
        forged = sealed(bytes(changed))
        try:
            said = Snapshot.from_bytes(forged)
            env.restore(said)
        except UsageError:
            assert first_difference(env.snapshot(), here) is None
            continue
        restored += 1
        if way in ("Sokoban", "VisualSokoban"):  # what counts as on target is the environment's own affair
            board, player, on_target, _, deadlock = said.state
            said = replace(said, state=(board, player, on_target, on_target, deadlock))
        assert env.snapshot().to_bytes() == said.to_bytes()
        for action in env.admissible_actions()[:3]:
            env.step(action)
            break
        env.restore(here)
    assert restored < len(body)


IMPOSSIBLE = (
    {"suite": "another"}, {"suite": None}, {"schema": 99}, {"data": "another"}, {"data": ["x"]},
    {"task": None}, {"task": "x"}, {"task": NamedTask("0" * 32)}, {"task": NamedTask(7)},
    {"state": None}, {"state": "x"}, {"state": ((),)}, {"state": (1, 2)}, {"state": {}}, {"state": [1]},
    {"turn": "x"}, {"turn": -1}, {"turn": 10**9}, {"turn": 1.0}, {"turn": True}, {"turn": None},
    {"valid": "x"}, {"valid": 1}, {"terminated": "x"}, {"terminated": None}, {"truncated": 0},
    {"terminated": True, "truncated": True},
    {"rng": "x"}, {"rng": (1, 2, 3)}, {"rng": (0, 0, 0, 0)}, {"rng": (1 << 128, 1, 0, 0)},
    {"rng": (0, 1, 2, 0)}, {"rng": (0, 1, 0, "x")},
)  # fmt: skip


@pytest.mark.parametrize("way", ALL)
def test_impossible_snapshots_are_refused_and_change_nothing(way):
    env = made(way)
    envs = made_vector(way)
    snapshot = walked(env, 3)[-1]
    envs.reset(seed=5)
    slots = [envs.snapshot(i) for i in range(2)]
    for values in IMPOSSIBLE:
        for restore in (env.restore, lambda wrong: envs.restore(1, wrong)):
            with pytest.raises(UsageError, match=r"^[^\n]+$"):
                restore(replace(snapshot, **values))
    for wrong in (None, "x", b"x", 7, snapshot.to_bytes(), slots):
        for restore in (env.restore, lambda wrong: envs.restore(1, wrong)):
            with pytest.raises(UsageError, match="restore takes a Snapshot"):
                restore(wrong)
    assert first_difference(env.snapshot(), snapshot) is None
    assert first_difference([envs.snapshot(i) for i in range(2)], slots) is None


def changed(snapshot, **values):
    return replace(snapshot, state=snapshot.state._replace(**values))


def refused(env, *snapshots):
    before = env.snapshot()
    for snapshot in snapshots:
        with pytest.raises(UsageError, match="the snapshot is none of suite"):
            env.restore(snapshot)
    assert first_difference(env.snapshot(), before) is None


def test_boards_that_are_not_of_the_level_are_refused():
    env = made("Sokoban")
    snapshot = walked(env, 2)[-1]
    board, player = snapshot.state.board, snapshot.state.player
    refused(
        env,
        changed(snapshot, board=board + b"#"),
        changed(snapshot, board=board.replace(b"@", b" ")),
        changed(snapshot, board=board.replace(b"$", b" ")),
        changed(snapshot, board=board.replace(b" ", b"$", 1)),
        changed(snapshot, board=board.replace(b".", b" ")),
        changed(snapshot, board=board.replace(b" ", b"@", 1)),
        changed(snapshot, player=player + 1),
        changed(snapshot, player=-1),
        changed(snapshot, on_target=1),
        changed(snapshot, counted=-1),
        changed(snapshot, deadlock=0),
        replace(snapshot, terminated=True),
    )


def test_formulas_that_nobody_can_write_are_refused():
    env = made("EZPoints")
    snapshot = walked(env, 0)[-1]
    for tokens in (("11",), ("+",) * 6, ("=", "+"), ("x",), ([],)):
        refused(env, replace(snapshot, state=tokens))
    refused(env, replace(snapshot, state=("=",)), replace(snapshot, terminated=True))


def test_games_that_cannot_stand_so_are_refused():
    env = made("ALFWorld")
    snapshot = walked(env, 2)[-1]
    refused(
        env,
        changed(snapshot, bits=-1),
        changed(snapshot, bits=0),
        changed(snapshot, bits=snapshot.state.bits << 9_000),
        changed(snapshot, bits=(1 << env._game.planes.width) - 1),
        changed(snapshot, moved=("x", 1)),
        changed(snapshot, commands=("look",)),
        replace(snapshot, terminated=True),
    )


def test_visits_to_another_shop_are_refused():
    env = made("WebShop")
    env.reset(seed=0)
    env.step("search[lamp]")
    results = env.snapshot()
    visit = results.state.visit
    refused(
        env,
        *(
            replace(results, state=results.state._replace(visit=visit._replace(**values)))
            for values in (
                {"page": "start"},
                {"page": "done"},
                {"page": "x"},
                {"query": ""},
                {"query": "x" * 10**6},
                {"number": 0},
                {"asin": "nothing"},
                {"page": "item", "asin": "nothing", "visited": ("nothing",)},
                {"visited": ("nothing",)},
                {"options": (("colour", "red"),)},
                {"score": 1.0},
            )
        ),
        changed(results, noise=-1),
        changed(results, past=Past(("x",), ())),
        replace(results, terminated=True),
    )


def test_a_longer_episode_needs_a_higher_limit():
    snapshot = walked(CorridorEnv(max_steps=12), 0)[0]
    with pytest.raises(UsageError, match="restore it with a higher max_steps"):
        CorridorEnv(max_steps=3).restore(replace(snapshot, turn=7))


def test_a_task_of_another_split_is_named():
    snapshot = walked(CorridorEnv(split="test"), 0)[0]
    with pytest.raises(UsageError, match=f"no task '{snapshot.task.id}' in split 'train'"):
        CorridorEnv().restore(Snapshot.from_bytes(snapshot.to_bytes()))


# ---- the encoding ------------------------------------------------------------------------------------

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.binary()
    | st.text(st.characters()),
    lambda each: st.lists(each, max_size=4).map(tuple),
)  # fmt: skip


@given(plain, plain)
def test_one_value_has_one_encoding(value, other):
    assert repr(decode(encode(value))) == repr(value)
    assert (encode(value) == encode(other)) == (repr(value) == repr(other))


@given(st.binary(max_size=40))
def test_any_bytes_are_refused_or_canonical(data):
    try:
        value = decode(data)
    except ValueError:
        return
    assert encode(value) == data


def test_what_is_not_plain_is_refused():
    deep = ()
    for _ in range(40):
        deep = (deep,)
    for value in ([1], {1: 2}, {1}, object(), float("nan"), 1j, deep):
        with pytest.raises(ValueError, match=r"plain|NaN|nested"):
            encode((value,))
    nested = b"l\0\0\0\1" * 40 + b"n"
    for data in (b"l\xff\xff\xff\xff", nested, b"i\0\0\0\2\0\1", b"s\0\0\0\1\xff", b"", b"nn"):
        with pytest.raises(ValueError):  # noqa: PT011 (of every kind)
            decode(data)


class Pair(NamedTuple):
    left: int
    right: str | None


def test_values_are_given_their_types():
    assert type(typed(Pair, (1, None))) is Pair
    wrong = ((Pair, (True, "")), (Pair, (1,)), (Pair, "x"), (int, 1.0), (tuple[int, ...], (1, "x")))
    for kind, value in wrong:
        with pytest.raises(ValueError, match=r"state|member"):
            typed(kind, value)
