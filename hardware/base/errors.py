"""The error that a wrong request raises, with the nearest allowed name, and the lookup of names as people type them:
case, hyphens, underscores, blanks and dots do not matter. Every list of names is looked up here."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from hardware.base.records import group_by

MOST = 14  # names that are listed in addition to a suggestion


class RequestError(ValueError):
    """The request was wrong. The message is one line: what, what is allowed, the nearest match. Arguments after the
    first write the rest of it when it is read."""

    def __str__(self) -> str:
        return "".join((*map(str, self.args[:1]), *(write() for write in self.args[1:])))

    def __reduce__(self) -> tuple[Any, ...]:  # from a process of a sweep
        return type(self), (str(self),)


def unknown(what: str, given: object, allowed: Iterable[str], *, listing: str = "") -> RequestError:
    """Return an error such as `unknown device 'h10_sxm': did you mean h100_sxm? (hwexplorer devices lists them)`.
    Without `listing`, list the allowed values: all, or the first MOST if one is near or there are very many."""
    names = [*dict.fromkeys(name for name in allowed if name)]  # the root of a tree has no name
    text = str(given)[:80]

    def advise() -> str:
        """Return the nearest names, and those allowed: of thousands of names, that takes 0.2 s."""
        near = hint(text, names)
        shown = names[:MOST] if near or len(names) > 4 * MOST else names
        more = f" and {len(names) - len(shown)} more" if len(shown) < len(names) else ""
        listed = listing or f"allowed: {', '.join(shown)}{more}"
        return f"{': ' if near else ''}{near} ({listed})"

    return RequestError(f"unknown {what} {text!r}", advise)


ONE_MARK = str.maketrans("-. ", "___")
_NO_MARK = str.maketrans("", "", "-_. ")
_BEGINNING = 4  # letters, which are seldom wrong
_SPAN = 2.75  # letters of a name for each letter of its short form
_NEAR, _FAR = 0.5, 0.45  # least similarity of suggestions, and of a single one if no name of a few is near
_OF_MANY = 0.65  # least similarity of a suggestion of many names: one of them is always somewhat similar


def fold_name(name: str) -> str:
    """Return a name in lower case without hyphens, underscores, dots and blanks: `H100-PCIe` becomes `h100pcie`."""
    return name.casefold().translate(_NO_MARK)


def matching_places(typed: str, texts: Sequence[str]) -> tuple[int, ...]:
    """Return the indices of the texts that contain every typed word. Ignore case; if no text matches, ignore marks too
    (`MobileNetV2`); if still none matches, look for the letters of each word in order, within one line (`mobv2`)."""
    for fold, is_in in ((str.casefold, str.__contains__), (fold_name, str.__contains__), (fold_name, _has_letters)):
        words = [word for word in map(fold, typed.split()) if word]
        places = tuple(place for place, text in enumerate(texts) if all(is_in(fold(text), word) for word in words))
        if places:
            return places
    return ()


def _has_letters(text: str, word: str) -> bool:
    """Return True if a line begins with the letters of a word in order, without long gaps between them."""
    for line in text.split("\n"):
        place = 0 if line.startswith(word[0]) else -1
        for letter in word[1:]:
            place = line.find(letter, place + 1) if place >= 0 else -1
        if 0 <= place < _SPAN * len(word):
            return True
    return False


def split_list(text: str) -> list[str]:
    """Split `a,b{x=1,y=2},[c,d]` at the commas outside brackets. Empty parts are left out."""
    parts, depth, start = [], 0, 0
    for i, mark in enumerate(text):
        depth += (mark in "{[(") - (mark in "}])" and depth > 0)
        if mark == "," and not depth:
            parts.append(text[start:i])
            start = i + 1
    return [part.strip() for part in (*parts, text[start:]) if part.strip()]


def match_name(name: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that is meant, or None if none or several match. `qwen2.5-7b` is `qwen2_5_7b`, although
    `qwen2_57b` is the same without marks."""
    names = tuple(names)
    if name in names:
        return name
    marked = _names_by_key(names, False).get(name.casefold().translate(ONE_MARK))
    return marked or _names_by_key(names, True).get(fold_name(name))


@lru_cache(maxsize=64)
def _names_by_key(names: tuple[str, ...], by_sound: bool) -> dict[str, str | None]:
    """Map spellings, or folded names if `by_sound`, to names; to None if several names share the key."""
    name_of: dict[str, str | None] = {}
    for name in names:
        key = fold_name(name) if by_sound else name.casefold().translate(ONE_MARK)
        name_of[key] = None if key in name_of else name
    return name_of


def nearest(name: str, names: Iterable[str], most: int = 3, cutoff: float = _NEAR) -> list[str]:
    """Return the names most like a wrong one: those that begin as it does, the nearest, those that are its beginning.
    `cutoff` (0-1) is the least similarity."""
    by_sound, typed = group_by(names, fold_name), fold_name(name[:80])
    close = get_close_matches(typed, by_sound, n=3 * most, cutoff=cutoff)
    close.sort(key=lambda sound: sound[:_BEGINNING] != typed[:_BEGINNING])
    shorter = sorted((s for s in by_sound if len(s) >= _BEGINNING and typed.startswith(s)), key=len, reverse=True)
    return [candidate for sound in dict.fromkeys((*close, *shorter)) for candidate in by_sound[sound]][:most]


def hint(name: str, names: Iterable[str], otherwise: str = "") -> str:
    """Return `did you mean a or b?` with near names, of a few at least with the most similar one, else `otherwise`."""
    names = tuple(names)
    searches = ((3, _OF_MANY),) if len(names) > 4 * MOST else ((3, _NEAR), (1, _FAR))
    near = next(filter(None, (nearest(name, names, most, cutoff) for most, cutoff in searches)), [])
    return f"did you mean {' or '.join(near)}?" if near else otherwise
