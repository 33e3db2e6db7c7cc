"""Addresses in texts: publications by their identifier, and pages by their address. Terminals open them (OSC 8)."""

import re
from collections.abc import Iterator

_PLACES = re.compile(
    r"doi:(?P<doi>10\.[^\s)\];,]+)|arXiv[: ](?P<arxiv>\d{4}\.\d{4,5})"
    r"|(?P<url>https?://[^\s)\];,]+)|(?P<page>\b(?:[a-z0-9-]+\.)+(?:ai|com|dev|edu|io|net|org)\b(?:/[^\s)\];,:]*)?)"
)
_ADDRESSES = {"doi": "https://doi.org/", "arxiv": "https://arxiv.org/abs/", "url": "", "page": "https://"}


def split_links(text: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a text in their order, each with its address, '' for plain text."""
    end = 0
    for match in _PLACES.finditer(text):
        kind, name = str(match.lastgroup), match[0].rstrip(".:")
        yield text[end : match.start()], ""
        yield name, _ADDRESSES[kind] + match[kind].rstrip(".:")
        end = match.start() + len(name)
    yield text[end:], ""
