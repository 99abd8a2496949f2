"""The settings that a shell script launches a trainer with, read without running it.

Scripts of research code set variables, fill them in with defaults, and end in ``python3 -m MODULE key=value``
or ``--key value``, or hand over to another script. This follows them so far: variables,
``${NAME:-default}``, ``$((1 / 2))``, the first word of a ``for``, ``exec bash OTHER``. What an ``if`` or a
function sets is passed over, what a command prints is empty, and a form that might set a value otherwise is
refused.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Iterator

_ASSIGNED = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)=(.*)", re.DOTALL)
_LOOP = re.compile(r"for\s+(\w+)\s+in\s+(\S+)")
_PLAIN = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_DEFAULT = re.compile(r"\$\{(\w+):-((?:[^{}]|\$\{[^{}]*\})*)\}")
_SUM = re.compile(r"\$\(\(([^()]*)\)\)")
_UNFOLLOWED = re.compile(
    r"(?:case|while|until|eval|read|local|declare|typeset|readonly)\s.*"
    r"|.*(?:<<|:=|\w\+=|(?:&&|\|\|)\s*\w+=).*"
    r"|for\s.*;\s*do\s.+"
)
_FUNCTION = re.compile(r"(?:function\s+\w+|\w+\s*\(\)).*")
_FOLDER = re.compile(r'\$\(cd "([^"]*)" && pwd\)')


_ENDS = ("fi", "}")


def launch(path: str, read: Callable[[str], str], given: dict[str, str] | None = None) -> dict[str, str]:
    """Return the keys and values of what a script launches, the last ones of each key.

    Args:
        path: of the script in its repository.
        read: returns the text of a file there.
        given: variables that are set already.

    Raises:
        ValueError: it launches nothing that has a key, or has a form that is not followed.
    """
    variables = dict(given or {})
    found: dict[str, str] = {}
    depth = 0
    for line in _commands(read(path)):
        word = line.split(maxsplit=1)[0]
        depth += (word == "if" or bool(_FUNCTION.fullmatch(line))) - (word in _ENDS)
        loop, assigned = _LOOP.match(line), _ASSIGNED.fullmatch(line)
        if depth or word in _ENDS:
            continue
        if word == "exit":
            break
        if _UNFOLLOWED.fullmatch(line):
            raise ValueError(f"{path}: {line!r:.80} is not followed")
        if loop:
            variables[loop[1]] = _expand(loop[2], variables, path)
        elif word == "unset":
            variables = {name: variables[name] for name in variables.keys() - line.split()}
        elif assigned and not _launches(line):
            value = _expand(assigned[2], variables, path)
            if value.endswith(";") or (not value.startswith(("(", "$((")) and _several(value)):
                raise ValueError(f"{path}: {line!r:.80} sets more than one variable")
            variables[assigned[1]] = _unquoted(value)
        elif _launches(line):
            words = shlex.split(_expand(line, variables, path))
            if unknown := [word for word in words if word.startswith("${") and "[@]" in word]:
                raise ValueError(f"{path}: the settings in {unknown[0]} are not followed")
            settings = dict(_settings(words))
            script = next((each for each in words if each.endswith(".sh")), "")
            if "bash" in words and script:
                inner = posixpath.normpath(script.lstrip("/"))
                settings = launch(inner, read, variables) | settings
            found |= settings
    if depth:
        raise ValueError(f"{path}: an if or a function of one line is not followed")
    if not found:
        raise ValueError(f"{path}: launches nothing that has a key")
    return found


def _commands(text: str) -> Iterator[str]:
    """Yield commands: continued lines joined, comments left out."""
    for line in re.sub(r"\\(?:\n|$)", " ", text).splitlines():
        bare = re.sub(r"(?:^|\s)#.*", "", line).strip()
        if bare:
            yield bare


def _several(value: str) -> bool:
    """Return whether a value has words behind it; one that a command prints may be cut within quotes."""
    try:
        return len(shlex.split(value)) > 1
    except ValueError:
        return False


def _launches(line: str) -> bool:
    return re.search(r"(?:^|\s)(?:bash|\S*python3?|\"?\$\{?PYTHON_BIN\}?\"?|vllm serve)\s", line) is not None


def _settings(words: list[str]) -> Iterator[tuple[str, str]]:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("--") and not following.startswith(("-", "/")):
            yield word, following
        key, mark, value = word.partition("=")
        if mark and re.fullmatch(r"\+{0,2}[a-z_][\w./@]*", key):
            # folders above a data set are their authors'
            yield key.lstrip("+"), "/".join(value.split("/")[-2:]) if value.startswith(("/", "..")) else value


def _expand(text: str, variables: dict[str, str], path: str) -> str:
    """Fill in variables, defaults, sums and folders; what any other command prints is empty."""
    text = text.replace('$(dirname "${BASH_SOURCE[0]}")', posixpath.dirname(path)).replace("$(pwd)", "")
    for _ in range(9):
        before = text
        text = _DEFAULT.sub(lambda match: variables.get(match[1]) or match[2], text)
        text = _PLAIN.sub(lambda match: variables.get(match[1] or match[2], ""), text)
        text = _FOLDER.sub(lambda match: posixpath.normpath(match[1]), text)
        text = _SUM.sub(lambda match: _sum(match[1], variables), text)
        if text == before:
            break
    return re.sub(r"\$\([^()]*\)", "", text)


def _sum(text: str, variables: dict[str, str]) -> str:
    """Return a sum, difference, product or whole quotient of two numbers or variables; empty for others."""
    parts = [variables.get(word, word) for word in text.split()]
    if len(parts) != 3 or not (parts[0].isdigit() and parts[2].isdigit()):
        return ""
    one, two = int(parts[0]), int(parts[2])
    return str({"+": one + two, "-": one - two, "*": one * two, "/": one // max(two, 1)}.get(parts[1], ""))


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
