"""Other ways to write a command line: flags that stand for a verb or for its first word, and lists with blanks. Other
spellings of flags are in analysis/model/names/aliases.py."""

from __future__ import annotations

from contextlib import suppress
from itertools import takewhile

from hardware.errors import RequestError
from hwexplorer import registry

MODEL, DEVICES, LIST, EXPLAIN = "--model", "--on", "--list-", "--explain-difference"
LISTS = ("models", "devices")


def with_verb(words: list[str]) -> list[str]:
    """Return the words with the verb that a flag stands for: `--list-models` is `models`."""
    flag = next((word for word in words if word == EXPLAIN or word.startswith(LIST)), None)
    if flag is None:
        return words
    rest = [word for word in words if word != flag]
    return [*_verb(flag), *(rest[1:] if rest and registry.is_verb(rest[0]) else rest)]


def _verb(flag: str) -> tuple[str, ...]:
    """Return the words that a line with this flag begins with: `--list-gpus` is `devices --arch gpu`."""
    kind = flag.removeprefix(LIST)
    if kind in LISTS:
        return (kind,)
    return ("explain",) if flag == EXPLAIN else ("devices", "--arch", kind.removesuffix("s"))


def with_model_first(words: list[str]) -> list[str]:
    """Return the words with the value of `--model` first, for a verb whose first word is the model."""
    for place, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag == MODEL and (equals or place + 1 < len(words)):
            end = place + 1 if equals else place + 2
            return [value or words[place + 1], *words[:place], *words[end:]]
    return words


def with_joined_devices(words: list[str]) -> list[str]:
    """Return the words with `--on A B` as `--on A,B`, as far as the words after `--on` name devices."""
    if DEVICES not in words:
        return words
    first_device = words.index(DEVICES) + 1
    end = first_device + 1 + len(list(takewhile(_is_device, words[first_device + 1 :])))
    return [*words[:first_device], ",".join(words[first_device:end]), *words[end:]] if end > first_device + 1 else words


def _is_device(word: str) -> bool:
    from hwexplorer import engine

    with suppress(RequestError):
        return not word.startswith("-") and bool(engine.device(word))
    return False
