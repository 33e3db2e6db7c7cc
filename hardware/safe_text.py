"""Text from elsewhere (a model's names, a device file), made safe to show."""

import re
import unicodedata

_FORMULA = ("=", "+", "-", "@")
_UNSEEN = re.compile(r"[^\n -~]")  # in JSON, whose own control characters are escaped


def safe(text: object, limit: int = 2000) -> str:
    """Make text safe for a terminal: control, format and private characters become visible or vanish."""
    source = str(text)[:limit]
    if source.isprintable():
        return source
    return "".join(map(_safe_character, source))


def _safe_character(character: str) -> str:
    if character.isprintable():
        return character
    if character in "\t\n\r\v\f":
        return " "
    if unicodedata.category(character) == "Cc" and ord(character) < 0x20:
        return chr(0x2400 + ord(character))  # the visible pictures of control characters
    return "�"


def inert(text: str) -> str:
    """Quote text that a spreadsheet would run as a formula, also if it begins with blanks or wide letters."""
    shown = safe(text)
    start = unicodedata.normalize("NFKC", shown.lstrip()[:1])
    return "'" + shown if start.startswith(_FORMULA) else shown


def visible_json(document: str) -> str:
    """Return the same JSON with unprintable characters (direction marks, C1 controls) escaped."""
    if document.replace("\n", "").isprintable():
        return document
    return _UNSEEN.sub(lambda match: match[0] if match[0].isprintable() else _escaped(match[0]), document)


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
