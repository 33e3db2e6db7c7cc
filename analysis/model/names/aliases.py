"""Other names of models and options, from `aliases.toml`."""

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from analysis.model.names import zoo
from hardware.base import file_access
from hardware.base.errors import ONE_MARK, fold_name, match_name

_FILE = Path(__file__).with_suffix(".toml")
_SIZE = re.compile(r"\d+(_\d+)?[bm]|a\d+b|e\d+b")  # 8b, 1_5b, a3b, e4b


@cache
def _by_sound(kind: str) -> dict[str, str]:
    return {fold_name(name): meant for name, meant in file_access.shipped(_FILE)[kind].items()}


@cache
def _models() -> dict[str, str]:
    """Map the other names of models, and the names of models of libraries that ship, to names here."""
    shipped = {name: f"{library}:{name}" for library, models in zoo.libraries().items() for name in models}
    other: dict[str, str] = file_access.shipped(_FILE)["models"]
    return shipped | other


def libraries(*kinds: str) -> tuple[str, ...]:
    """Return the libraries whose models are named LIBRARY:NAME, of the kinds in aliases.toml that are given or all."""
    return tuple(name for kind in kinds or ("libraries", "captured") for name in file_access.shipped(_FILE)[kind])


def names() -> tuple[str, ...]:
    """Return the other names of models."""
    return tuple(_models())


def option(flag: str, flags: list[str]) -> str:
    """Return the flag of `flags`, without hyphens, that is meant: `batch` for `--Batch_Size`. '' if unknown."""
    name = fold_name(flag)
    return match_name(_by_sound("options").get(name, name), [f.lstrip("-") for f in flags if f.startswith("--")]) or ""


def model(text: str, names: list[str]) -> str:
    """Return a model's name, or a state string that begins with one, with the canonical name in it.

    `meta-llama/Llama-3.1-8B@b8` is `llama3_8b@b8`, `llama3.1:8b` (a tag of Ollama) is `llama3_8b`, and
    `timm/resnet50.a1_in1k` is `timm:resnet50.a1_in1k` if timm is installed, else `resnet50`."""
    table = file_access.shipped(_FILE)
    text = re.sub(table["before"], "", text)
    head = re.split(r"[@?]", text, maxsplit=1)[0]
    path = head.partition(":")[0]
    if "/" in path and (meant := _find_model(path.replace("/", "_"), names)):  # ViT-B/16
        return meant + text[len(path) :]
    tagged = re.match(r"([^:]+):([^:,=]+)", head)
    if (
        tagged
        and (match_name(tagged[1], names) is None or re.fullmatch(r"[0-9.]+[bm]", tagged[2]))
        and (meant := _find_model(f"{tagged[1].rpartition('/')[2]}-{tagged[2]}", names))
    ):
        return meant + text[tagged.end() :]
    first, _, rest = head.partition("/")
    second = re.split("[/:]", rest, maxsplit=1)[0]
    if second and not second.endswith(".py"):
        library, meant = match_name(first, libraries()), _find_model(re.sub(table["before"], "", second), names)
        ships = library is not None and match_name(second, zoo.libraries().get(library, ())) is not None
        if library is not None and (meant is None or ships or find_spec(library) is not None):
            return f"{library}:{second}{text[len(first) + len(second) + 1 :]}"
        if meant is not None and match_name(first, names) is None:
            return meant + text[len(first) + len(second) + 1 :]
    base = first.partition(":")[0]
    return (_find_model(base, names) or base) + text[len(base) :]


def of_library(library: str, name: str) -> tuple[str, str]:
    """Return a library and one of its models in their official spelling."""
    library = match_name(library, libraries()) or library
    return library, match_name(name, zoo.libraries().get(library, ())) or name


def _find_model(name: str, names: list[str]) -> str | None:
    """Return the model of a name. Words for training, framework or storage at its end are ignored. None for an unknown
    name."""
    table = file_access.shipped(_FILE)
    while True:
        in_series = _of_series(name)
        library = in_series if in_series.partition(":")[0] in libraries() else None
        model = next(filter(None, (_match_model(spelling, names) for spelling in (name, in_series))), library)
        if (model := model or _with_only_ending(in_series, names)) is not None:
            return model
        endings = (*table["trained"], *table["stored"], *table["framework"])
        shorter = next((name[: -len(word) - 1] for word in endings if _ends(name, word)), "")
        shorter = shorter or re.sub(table["weights"], "", name)
        if shorter == name:
            return None
        name = shorter


def _match_model(name: str, names: list[str]) -> str | None:
    other = _models()
    return match_name(name, names) or other.get(match_name(name, other) or "")


def _of_series(name: str) -> str:
    """Return a name with the beginning of another series of the same sizes, or as it is."""
    spelling = name.casefold().translate(ONE_MARK)
    for beginning, replacement in file_access.shipped(_FILE)["series"].items():
        spelling = re.sub(f"^{beginning}", replacement, spelling)
    return spelling


def _with_only_ending(name: str, names: list[str]) -> str | None:
    """Return the only name that continues one with a number by its size, as `qwen3_235b`; None if several do."""
    if not re.search("[0-9]", name):
        return None
    start = name.casefold().translate(ONE_MARK) + "_"
    sizes = [model for model in names if model.startswith(start) and _SIZE.match(model, len(start))]
    return sizes[0] if len(sizes) == 1 else None


def stored_precision(text: str) -> str:
    """Return the stored precision that the last word of a model's name or tag states (`fp8`, `awq`), else ''. The text
    may be a state string that begins with the name."""
    table = file_access.shipped(_FILE)["stored"]
    parts = re.split("[/:]", re.split("[@?]", text, maxsplit=1)[0])
    return next((table[word] for part in parts for word in table if _ends(f"-{part}", word)), "")


def _ends(name: str, word: str) -> bool:
    return name.lower().endswith(word) and name[-len(word) - 1 : -len(word)] in tuple("-_ .")
