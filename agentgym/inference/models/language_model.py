"""Models as directories: loading any causal language model that `transformers` knows, and saving one."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from logging import CRITICAL
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from agentgym.core.types import Message
from agentgym.errors import UsageError
from agentgym.inference.models.lora import FOLDER, Adapter
from agentgym.inference.models.pictures import PictureReader
from agentgym.inference.models.weights import WeightFiles, empty_model, family_of, of_text, refuse_missing
from agentgym.io.files import writing
from agentgym.prompts.chat_tokenizer import ChatTokenizer


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """A model and the tokenizer it was made with."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    pictures: PictureReader | None = None
    """Reader of its pictures; None for a model of text alone."""
    weights: WeightFiles | None = None
    """Files of the weights of a model on the meta device; None where the model has them."""

    @property
    def chat(self) -> ChatTokenizer:
        """The tokenizer as prompts, choices and policies use one."""
        return ChatTokenizer(self.tokenizer)

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Tokens after which a response is over, ascending: the tokenizer's and the model's own."""
        listed = self.model.generation_config.eos_token_id
        own = listed if isinstance(listed, list) else [listed]
        return tuple(sorted({token for token in (*own, self.tokenizer.eos_token_id) if token is not None}))


def load_model(
    directory: str | Path, *, dtype: torch.dtype = torch.float32, device: str = "cpu"
) -> LanguageModel:
    """Load a model from a Hugging Face directory; nothing is downloaded and no code in it is run.

    A tokenizer without a chat template is refused, as is a ``dtype`` that would round away an adapter
    that was added to the weights.
    """
    refuse_rounding(directory, dtype)
    opened = open_directory(directory, dtype=dtype, device=device)
    if opened.weights is not None:
        opened.weights.fill(opened.model, torch.device(device))
    return replace(opened, weights=None)


def refuse_rounding(directory: str | Path, dtype: torch.dtype) -> None:
    """Raise `UsageError` for half precision where an adapter, which it rounds away, was added to weights."""
    adapter = Path(directory) / FOLDER
    if dtype != torch.float32 and adapter.is_dir():
        raise UsageError(
            f"the weights in {directory} are a base and an adapter, which {dtype} would round away: set "
            f"dtype=float32; elsewhere load the base with {adapter} beside it"
        )


def open_directory(
    directory: str | Path, *, dtype: torch.dtype = torch.float32, device: str = "cpu"
) -> LanguageModel:
    """Open a Hugging Face directory as `load_model` does, but leave the weights in their files.

    The model is on the meta device; or it has its weights, where they are not simply tensors of the
    files.
    """
    path = Path(directory)
    if not (path / "config.json").is_file():
        problem = "holds no config.json" if path.is_dir() else "does not exist"
        raise UsageError(f"the model directory {path} {problem}: give the path of a saved model")
    try:
        with _without_progress_bars():
            tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False)
            config = AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
            place = torch.device(device)
            found = empty_model(path, config, dtype, place)
            model, weights = found or (_whole(path, config, dtype, place), None)
            processor = None if of_text(config) else _image_processor(path)
    except UsageError:
        raise
    except Exception as error:  # damaged files make `transformers` raise a dozen kinds of exceptions
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        if "trust_remote_code" in str(error):
            reason = "it needs code of its own, which is never run: use a model that transformers knows"
        raise UsageError(f"cannot load a model from {path}: {reason}") from error
    if tokenizer.chat_template is None:
        raise UsageError(
            f"the tokenizer in {path} has no chat template: use an instruction-tuned model, or put a "
            "chat_template.jinja there"
        )
    _check_chat(path, tokenizer)
    rows = config.get_text_config().vocab_size
    if len(tokenizer) > rows:
        raise UsageError(
            f"the tokenizer in {path} has {len(tokenizer)} tokens but the model only {rows} embeddings: "
            "use the tokenizer the model was made with"
        )
    reader = None if processor is None else PictureReader(model, processor)
    return LanguageModel(model, tokenizer, reader, weights)


def _whole(path: Path, config: Any, dtype: torch.dtype, device: torch.device) -> PreTrainedModel:
    """Have `transformers` load a model with its weights."""
    model, loaded = family_of(config).from_pretrained(
        path,
        config=config,
        dtype=dtype,
        local_files_only=True,
        trust_remote_code=False,  # the default prompts on the terminal whether to run the directory's code
        output_loading_info=True,
    )
    refuse_missing(path, loaded["missing_keys"])
    return cast(PreTrainedModel, model.to(device))


def _image_processor(path: Path) -> Any:
    return AutoImageProcessor.from_pretrained(path, local_files_only=True, trust_remote_code=False)  # type: ignore[no-untyped-call]


def _check_chat(path: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse a tokenizer that cannot write a chat."""
    chat, message = ChatTokenizer(tokenizer), Message("user", "agentgym-asked-5d20")
    try:
        ids = chat.encode_chat("a")
        shown = message.text in chat.template.render((message,))
    except Exception as error:  # a template is a program, and may raise anything
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UsageError(f"the chat template in {path} cannot write a user's message: {reason}") from error
    if not shown:
        raise UsageError(
            f"the chat template in {path} leaves out what a user says: put another chat_template.jinja there"
        )
    if not ids:
        raise UsageError(f"the tokenizer in {path} has no tokens: put the files there that it was saved as")


def copied(
    model: PreTrainedModel,
    dtype: torch.dtype,
    weights: WeightFiles | None = None,
    device: str = "cpu",
    adapter: Adapter | None = None,
) -> PreTrainedModel:
    """Return a copy with weights of another type; tables of angles keep theirs, as where one is loaded so.

    ``weights`` that the model is without are read into the copy.
    """
    result = copy.deepcopy(model)
    for weight in result.parameters():
        weight.data = weight.data.to(dtype)
    if weights is not None:
        weights.fill(result, torch.device(device))
    if adapter is not None:
        adapter.add_to(result)
    return result


def save_model(
    directory: str | Path, language_model: LanguageModel, weights: Mapping[str, Tensor] | None = None
) -> None:
    """Save a model as an ordinary Hugging Face directory, which `load_model` and others load.

    ``weights`` are given where they are not the model's own, in one type; one of several tied names
    suffices.
    """
    model = language_model.model if weights is None else _with_weights(language_model.model, weights)
    with writing(directory), _without_progress_bars():
        try:
            model.save_pretrained(directory)
        except SafetensorError as error:  # also raised for a full disk
            raise UsageError(f"cannot write {directory}: {error}; free space, or name another") from error
        language_model.tokenizer.save_pretrained(directory)
        if language_model.pictures is not None:
            language_model.pictures.processor.save_pretrained(directory)


def _with_weights(model: PreTrainedModel, weights: Mapping[str, Tensor]) -> PreTrainedModel:
    """Return a model of the same configuration that holds other weights, and no adapter."""
    with torch.device("meta"):
        result: PreTrainedModel = type(model)(copy.deepcopy(model.config))
    result.load_state_dict(weights, strict=False, assign=True)
    result.tie_weights()
    if missing := [name for name, weight in result.named_parameters() if weight.is_meta]:
        raise UsageError(f"{len(missing)} weights are missing, for example {missing[0]}: give all")
    result.generation_config = model.generation_config
    return result


@contextmanager
def _without_progress_bars() -> Iterator[None]:
    """Keep the bars and reports of `transformers` off the terminal, which is not this layer's."""
    shown, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity(CRITICAL)
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
