"""Language models that answer: loading them, engines that sample from them, and policies that play with them.

Everything below this package needs the extra ``train``; importing it without says so.
"""

from importlib.util import find_spec

from agentgym.errors import MissingPackageError
from agentgym.io.optional import install_command

for _package in ("torch", "transformers", "tokenizers", "safetensors", "peft"):
    if find_spec(_package) is None:
        raise MissingPackageError(f"{_package} is not installed: {install_command('train')}")
