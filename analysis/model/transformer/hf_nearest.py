"""Find the known model_type whose fields an unknown configuration has."""

from __future__ import annotations

from fnmatch import fnmatchcase

from analysis.model.transformer.hf_fields import keys_of, row
from analysis.model.transformer.hf_layers import TABLE, Raw

_ALIKE = 4  # letters that names of one family have in common, as in qwen3_5 and qwen3_7


def nearest_kind(raw: Raw, stated: str) -> str:
    """Return the known type that reads all fields of a configuration, first of those whose names begin alike; '' if
    there is none."""
    return next((kind for kind in _candidates(raw, stated) if not unread_keys(raw, kind)), "")


def nearest_unread(raw: Raw, stated: str) -> tuple[str, list[str]]:
    """Return the type that leaves the fewest fields of a configuration unread, and these fields."""
    unread = {kind: unread_keys(raw, kind) for kind in _candidates(raw, stated)}
    return min(unread.items(), key=lambda entry: len(entry[1]), default=("", []))


def _candidates(raw: Raw, stated: str) -> list[str]:
    if raw.get("is_encoder_decoder") or not all(raw.get(key) for key in TABLE["usual"]["needs"]):
        return []
    alike = {kind: _letters_alike(kind, stated) for kind in TABLE["types"]}
    nearest = max(alike, key=lambda kind: (alike[kind], -abs(len(kind) - len(stated))))
    first = [nearest] if alike[nearest] >= _ALIKE else []
    return [kind for kind in dict.fromkeys((*first, *TABLE["usual"]["types"])) if _has_keys(raw, kind)]


def _letters_alike(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return next((i for i, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))


def note(stated: str, kind: str) -> str:
    """Return the note that names the type by which an unknown configuration is read."""
    return (
        f"model_type {stated[:40]!r} is unknown here: read as {kind}, which has all its fields; norms and gates that "
        "no field states are not counted"
    )


def _has_keys(raw: Raw, kind: str) -> bool:
    try:
        return keys_of(row(raw, kind))[0] <= raw.keys()
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return False


def unread_keys(raw: Raw, kind: str) -> list[str]:
    """Return the keys of a configuration that may change its structure and that the row of a type does not read."""
    required, optional = keys_of(row(raw, kind))
    read = required | optional | {*TABLE["layers"]["kinds"], *TABLE["layers"]["sizes"], *TABLE["usual"]["read"]}
    return sorted(key for key, value in raw.items() if value and key not in read and not _is_plain(key))


def _is_plain(key: str) -> bool:
    return key.startswith("_") or any(fnmatchcase(key, pattern) for pattern in TABLE["usual"]["ignored"])
