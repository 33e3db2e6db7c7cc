"""Other names of models and options, from `aliases.toml`."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from analysis.model.names import zoo
from hardware import file_access
from hardware.names import fold_name, match_name

_FILE = Path(__file__).with_suffix(".toml")


@cache
def _by_sound(kind: str) -> dict[str, str]:
    return {fold_name(name): meant for name, meant in file_access.shipped(_FILE)[kind].items()}


def libraries() -> tuple[str, ...]:
    """Return the libraries whose models are named LIBRARY:NAME."""
    return tuple(file_access.shipped(_FILE)["libraries"])


def names() -> tuple[str, ...]:
    """Return the other names of models."""
    return tuple(file_access.shipped(_FILE)["models"])


def option(flag: str, flags: list[str]) -> str:
    """Return the flag of `flags`, without hyphens, that is meant: `batch` for `--Batch_Size`. '' if unknown."""
    name = fold_name(flag)
    return match_name(_by_sound("options").get(name, name), [f.lstrip("-") for f in flags if f.startswith("--")]) or ""


def model(text: str, names: list[str]) -> str:
    """Return a model's name, or a state string that begins with one, with the canonical name in it.

    `meta-llama/Llama-3.1-8B@b8` is `llama3_8b@b8`, `timm/convnext_tiny.fb_in1k` is `timm:convnext_tiny.fb_in1k`."""
    head = re.split(r"[@?]", text, maxsplit=1)[0]
    first, _, rest = head.partition("/")
    second = re.split("[/:]", rest, maxsplit=1)[0]
    if second and not second.endswith(".py"):
        library = match_name(first, libraries())
        if library is not None:
            return f"{library}:{second}{text[len(first) + len(second) + 1 :]}"
        if match_name(first, names) is None and (meant := _find_model(second, names)):
            return meant + text[len(first) + len(second) + 1 :]
    base = first.partition(":")[0]
    return (_find_model(base, names) or base) + text[len(base) :]


def of_library(library: str, name: str) -> tuple[str, str]:
    """Return a library and one of its models in their official spelling."""
    library = match_name(library, libraries()) or library
    return library, match_name(name, zoo.libraries().get(library, ())) or name


def _find_model(name: str, names: list[str]) -> str | None:
    """Return the model of a name. Words for training or storage at its end are ignored. None for an unknown name."""
    while True:
        meant = match_name(name, names) or _by_sound("models").get(fold_name(name))
        if meant is not None:
            return meant
        endings = (*file_access.shipped(_FILE)["trained"], *file_access.shipped(_FILE)["stored"])
        shorter = next((name[: -len(word) - 1] for word in endings if _ends(name, word)), "")
        if not shorter:
            return None
        name = shorter


def stored_precision(text: str) -> str:
    """Return the stored precision that the last word of a model's name states (`fp8`, `awq`), else ''. The text may be
    a state string that begins with the name."""
    known = file_access.shipped(_FILE)["stored"]
    parts = re.split("[@?:]", text, maxsplit=1)[0].casefold().split("/")[:2]
    return next((known[word] for part in parts if (word := re.split("[-_ ]", part)[-1]) in known), "")


def _ends(name: str, word: str) -> bool:
    return name.lower().endswith(word) and name[-len(word) - 1 : -len(word)] in ("-", "_", " ")
