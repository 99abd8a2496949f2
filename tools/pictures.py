"""Draw the pictures of README.md and the pages: ``python -m tools.pictures``."""

from __future__ import annotations

import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

import agentgym
from agentgym.cli import main as agentgym_command

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / "docs" / "images"
DEMO, CURVES = ROOT / "runs" / "demo" / "curves", ROOT / "benchmarks" / "curves"
"""Where `benchmarks.demo` draws learning curves, and where the leaderboard shows them."""
Image = npt.NDArray[np.uint8]

FILMS: dict[str, tuple[str, ...]] = {
    "sokoban": ("VisualSokoban", "--split", "test", "--option", "dim_room=[7, 7]", "--option", "num_boxes=2"),
    "ezpoints": ("EZPoints", "--split", "train", "--option", "observation=image"),
    "alfworld": ("ALFWorld", "--split", "valid_seen"),
    "webshop": ("WebShop", "--split", "test"),
    "multihop_qa": ("HotpotQA", "--split", "test"),
    "paper_search": ("PaperSearch", "--split", "test", "--seed", "2"),
    "sotopia": ("Sotopia", "--split", "test"),
}
"""By page under ``docs/envs``: what the oracle plays for ``images/films/PAGE.gif``."""

MAX_FILM_SIZE = 200_000
"""Bytes."""


def encode_png(image: Image) -> bytes:
    """Return a picture, uint8[H, W, 3], as the bytes of a PNG file."""
    height, width, _ = image.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in image)  # filter type 0: none
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows, 9)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def strip(images: list[Image], gap: int = 8) -> Image:
    """Put pictures side by side on white."""
    height = max(image.shape[0] for image in images)
    padded = [
        np.pad(image, ((0, height - image.shape[0]), (0, gap), (0, 0)), constant_values=255)
        for image in images
    ]
    return np.concatenate(padded, axis=1)[:, :-gap]


def frames(env_id: str, count: int, every: int, **options: Any) -> list[Image]:
    """Return pictures of one episode of the oracle."""
    env = gymnasium.make(env_id, **options).unwrapped
    assert isinstance(env, agentgym.AgentEnv)
    oracle = env.oracle()
    observation, info = env.reset(options={"task": env.tasks[7].id})
    images = [observation["image"]]
    for turn in range((count - 1) * every):
        request = agentgym.Request(
            episode=0,
            task_id=info["task_id"],
            task_type=info["task_type"],
            turn=turn,
            observation=observation,
            admissible_actions=info["admissible_actions"],
            state_hash=info["state_hash"],
            seed=0,
            snapshot=env.snapshot,
        )
        (completion,) = oracle.act([request])
        observation, _, terminated, _, info = env.step(completion.action)
        if (turn + 1) % every == 0 or terminated:
            images.append(observation["image"])
        if terminated:
            break
    return images


def take_curves(drawn: Path, shown: Path) -> None:
    """Replace the committed learning curves by the demo's, where one has been run here."""
    pictures = sorted(drawn.glob("*.png"))
    if pictures:
        for old in shown.glob("*.png"):
            old.unlink()
    for picture in pictures:
        shutil.copyfile(picture, shown / picture.name)


def film(page: str, folder: Path) -> Path:
    """Write the film of a page: an episode that the oracle wins, the same on every machine."""
    env, *flags = FILMS[page]
    path = folder / f"{page}.gif"
    path.unlink(missing_ok=True)
    code = agentgym_command(
        ["play", f"agentgym/{env}-v0", "--agent", "oracle", "--seed", "0", *flags, "--gif", str(path)]
    )
    if code or path.stat().st_size > MAX_FILM_SIZE:
        raise SystemExit(
            f"{path}: not written, or larger than {MAX_FILM_SIZE:,} bytes; choose another episode"
        )
    return path


def main() -> None:
    """Write every picture."""
    (HERE / "films").mkdir(parents=True, exist_ok=True)
    for page in FILMS:
        film(page, HERE / "films")
    take_curves(DEMO, CURVES)
    HERE.mkdir(exist_ok=True)
    sokoban = frames("agentgym/VisualSokoban-v0", 5, 3, split="test", dim_room=(7, 7), num_boxes=2)
    (HERE / "visual-sokoban.png").write_bytes(encode_png(strip(sokoban)))
    ezpoints = frames("agentgym/EZPoints-v0", 3, 2, split="train", observation="image")
    (HERE / "ezpoints.png").write_bytes(encode_png(strip(ezpoints)))


if __name__ == "__main__":
    main()
