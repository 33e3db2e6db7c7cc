"""Names of products, as data sheets, drivers and clouds write them, as the words that distinguish them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from hardware import file_access

_WORDS = file_access.table(Path(__file__).with_suffix(".toml"))
_OF_ANY_PRODUCT = re.compile("|".join(_WORDS["of_any_product"]))
_CAPACITY = re.compile(r"\b([0-9]+) ?(?:gb|gib|g)\b")
FORMS = frozenset(_WORDS["forms"])
_OFTEN_OMITTED = FORMS | frozenset(_WORDS["often_omitted"])


class ProductName(NamedTuple):
    """The words that distinguish a product, letters apart from digits; the words that have both (`rtx3090`); the memory
    in GB that its name states."""

    text: str
    words: frozenset[str]
    models: tuple[str, ...]
    capacities: frozenset[int]

    def plain(self, ignored: Iterable[str] = ()) -> str:
        """Return the words in their order, without blanks and `ignored` words."""
        return "".join(word for word in self.text.split() if word not in ignored)

    def is_like(self, own: ProductName) -> bool:
        """Return True if both names share a line or the first digits of a number, or if this one has no long number."""
        pairs = ((a, b) for a in self.words for b in own.words if len(a) > 1 and len(b) > 1)
        return not re.search("[0-9]{2}", self.text) or any(a.startswith(b) or b.startswith(a) for a, b in pairs)

    def omitted(self, own: ProductName, kind: ProductName, facts: ProductName) -> int | None:
        """Return how many parts of a product's `own` name this one leaves out. None if it is another product's: it
        has a word that is neither there nor in `kind` (vendor, architecture) or `facts`, or lacks a distinctive one."""
        rest, common = own.words - self.words, self.words & own.words - kind.words
        is_clear = len(self.text) > 2 and ((common and rest <= kind.words) or any(map(str.isdigit, common)))
        has_all = rest <= _OFTEN_OMITTED | kind.words and self.words <= own.words | kind.words | facts.words
        if not (is_clear and has_all):
            return None
        is_same = all(word in f"{own.plain()} {kind.plain()} {facts.plain()}" for word in self.models)
        return len(rest) + bool(own.capacities - self.capacities) if is_same else None


@lru_cache(maxsize=4096)
def product_name(name: str) -> ProductName:
    """Parse the name of a product. A name in brackets, as lspci prints it, replaces the name of the chip before it."""
    name = name.casefold().replace("_", " ")
    bracketed = re.findall(r"\[([^\]]+)\]", name)
    name = _OF_ANY_PRODUCT.sub(" ", bracketed[-1] if bracketed else name)
    for word, synonym in _WORDS["synonyms"].items():
        name = re.sub(synonym, word, name)
    capacities = frozenset(int(size) for size in _CAPACITY.findall(name))
    name = _CAPACITY.sub(" ", name)
    words = re.findall(r"[a-z]+|[0-9]+|\+", name)
    models = tuple(re.findall(r"\b(?:[a-z]+[0-9]|[0-9]+[a-z])[a-z0-9]*", name))
    return ProductName(" ".join(words), frozenset(words), models, capacities)
