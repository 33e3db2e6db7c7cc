"""One line of text being typed: a frozen value, and what a key makes of it."""

from __future__ import annotations

import msgspec

LENGTH_MAX = 500


class Prompt(msgspec.Struct, frozen=True):
    """`kind` says what happens with the text; `before` is what escape goes back to, `stem` what completion began
    with. What is `selected` was there before, and gives way to what is typed."""

    kind: str
    label: str
    text: str = ""
    place: int = 0
    before: str = ""
    stem: str | None = None
    selected: bool = False


def typed(prompt: Prompt, text: str) -> Prompt:
    """Text put in at the cursor, from a key or pasted; what cannot be printed is left out."""
    if prompt.selected:
        prompt = msgspec.structs.replace(prompt, text="", place=0, selected=False)
    text = "".join(c for c in text if c.isprintable())[: max(0, LENGTH_MAX - len(prompt.text))]
    line = prompt.text[: prompt.place] + text + prompt.text[prompt.place :]
    return msgspec.structs.replace(prompt, text=line, place=prompt.place + len(text), stem=None)


def edit(prompt: Prompt, key: str, character: str | None) -> Prompt:
    """The prompt after a key; unknown keys do nothing."""
    text, place = prompt.text, prompt.place
    if prompt.selected and key in ("backspace", "delete"):
        text, place = "", 0
    elif key == "backspace" and place:
        text, place = text[: place - 1] + text[place:], place - 1
    elif key == "delete":
        text = text[:place] + text[place + 1 :]
    elif key in ("left", "ctrl+b"):
        place = max(0, place - 1)
    elif key in ("right", "ctrl+f"):
        place = min(len(text), place + 1)
    elif key in ("home", "ctrl+a"):
        place = 0
    elif key in ("end", "ctrl+e"):
        place = len(text)
    elif key == "ctrl+u":
        text, place = text[place:], 0
    elif key == "ctrl+w":
        start = len(text[:place].rstrip().rpartition(" ")[0])
        text, place = text[:start] + text[place:], start
    elif character and character.isprintable():
        return typed(prompt, character)
    return msgspec.structs.replace(prompt, text=text, place=place, stem=None, selected=False)
