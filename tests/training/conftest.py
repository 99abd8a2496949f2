import pytest
import torch

from agentgym.inference.engines.choices import ActionSpeller
from agentgym.inference.models.language_model import LanguageModel
from agentgym.inference.models.tiny import tiny_model, word_tokenizer

TEXTS = (
    "You stand in a kitchen. Around you, you see a shelf 1, a drawer 2 and a fridge.",
    "Your task is to: put a clean cup on a shelf.",
    "go to shelf, go to drawer, take cup from shelf, open fridge, look, wait",
)


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def language_model() -> LanguageModel:
    """A tiny model of random weights; its distributions are far from uniform, and none is certain."""
    made = tiny_model("0.1m", word_tokenizer(TEXTS), context=128, seed=3)
    with torch.no_grad():
        for weight in made.model.parameters():
            if weight.ndim == 2:
                weight.mul_(0.64)
    return made


@pytest.fixture(scope="session")
def speller(language_model: LanguageModel) -> ActionSpeller:
    return ActionSpeller(language_model.chat, end=language_model.stop_ids[-1])
