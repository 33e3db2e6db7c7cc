"""Names as people type them: case, hyphens, underscores, blanks and dots do not matter; and the right ones near a
wrong one. Every list of names is looked up here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import lru_cache

_ONE_MARK = str.maketrans("-. ", "___")
_NO_MARK = str.maketrans("", "", "-_. ")


_FAR = 0.3  # how alike a single name must be where none is near

# Words that tell no product from another: brands, and what a driver says of every part (`12th Gen`, `CPU @ 3.40GHz`).
_OF_ANY_PART = re.compile(
    r"\b(arm|aws|cloud|core|design|developer|edge|generation|geforce|graphics|instinct|kit|oam|processor|r|tesla|tm|vf|with|"
    r"[0-9]+-core|[0-9]+th gen|cpu @.*|model b( rev .*)?)\b"
)


def product_words(name: str, ignored: Iterable[str] = ()) -> frozenset[str]:
    """Return the words that tell a product from others: neither brands nor those `ignored` (its vendor, its memory)."""
    words = re.findall(r"[a-z0-9+.]+", _OF_ANY_PART.sub("", name.casefold().replace("_", " ")))
    return frozenset(words) - frozenset(ignored)


def fold_name(name: str) -> str:
    """Reduce a name to what is heard of it: `H100-PCIe` is `h100pcie`."""
    return name.casefold().translate(_NO_MARK)


def matching_places(typed: str, texts: Sequence[str]) -> tuple[int, ...]:
    """Return the places of the texts that hold each word that is typed: as it is but for its case; where none does,
    marks aside (`MobileNetV2`); where none does, its letters in order (`mobv2`). Lines of a text are matched singly."""
    for fold, pattern in ((str.casefold, re.escape), (fold_name, re.escape), (fold_name, _letters_in_order)):
        words = [re.compile(pattern(word)) for word in map(fold, typed.split()) if word]
        places = tuple(place for place, text in enumerate(texts) if all(w.search(fold(text)) for w in words))
        if places:
            return places
    return ()


def _letters_in_order(word: str) -> str:
    return "(?m)^" + "".join(rf"[^{re.escape(letter)}\n]*{re.escape(letter)}" for letter in word)


def split_list(text: str) -> list[str]:
    """The parts of `a,b{x=1,y=2},[c,d]`: commas within brackets do not part. Empty parts are left out."""
    parts, depth, start = [], 0, 0
    for i, mark in enumerate(text):
        depth += (mark in "{[(") - (mark in "}])" and depth > 0)
        if mark == "," and not depth:
            parts.append(text[start:i])
            start = i + 1
    return [part.strip() for part in (*parts, text[start:]) if part.strip()]


def match_name(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that is meant, None where none or several are. `qwen2.5-7b` is `qwen2_5_7b`, although
    `qwen2_57b` sounds the same."""
    names = tuple(names)
    if name in names:
        return name
    marked = _names_by_key(names, False).get(name.casefold().translate(_ONE_MARK))
    return marked or _names_by_key(names, True).get(fold_name(name))


@lru_cache(maxsize=64)
def _names_by_key(names: tuple[str, ...], by_sound: bool) -> dict[str, str | None]:
    """Names by how they are written, or sound; None where several are one."""
    name_of: dict[str, str | None] = {}
    for name in names:
        key = fold_name(name) if by_sound else name.casefold().translate(_ONE_MARK)
        name_of[key] = None if key in name_of else name
    return name_of


def nearest(name: str, names: Iterable[str], most: int = 3, cutoff: float = 0.5) -> list[str]:
    """The names that are most like a wrong one, the nearest first; `cutoff` (0-1) is how alike they must be."""
    by_sound: dict[str, list[str]] = {}
    for candidate in names:
        by_sound.setdefault(fold_name(candidate), []).append(candidate)
    close = get_close_matches(fold_name(name[:80]), by_sound, n=most, cutoff=cutoff)
    return [candidate for sound in close for candidate in by_sound[sound]][:most]


def hint(name: str, names: Iterable[str], otherwise: str = "") -> str:
    """`did you mean a or b?`, or something else to say where no name is near: then the one that is least far."""
    names = tuple(names)
    near = nearest(name, names) or nearest(name, names, most=1, cutoff=_FAR)
    return f"did you mean {' or '.join(near)}?" if near else otherwise
