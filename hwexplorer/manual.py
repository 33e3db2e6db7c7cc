"""The man page (docs/hwexplorer.1), made of what verbs declare and of the terms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hwexplorer import registry
from hwexplorer.declare import EVERYWHERE, NODE, Report, shown
from hwexplorer.options import DEVICES_DIR, OUTPUT, Option
from hwexplorer.reference import sentence
from hwexplorer.terms import terms

_EXITS = {
    "0": "done",
    "1": "something failed that was asked rightly: a rule is broken, a check failed",
    "2": "the request was wrong: one line says what, what is allowed, and the nearest match",
    "128+n": "ended by signal n",
}


def text() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield '.\\" Made by `python -m hwexplorer.generated`.'
    yield ".TH HWEXPLORER 1"
    yield ".SH NAME\nhwexplorer \\- what neural networks cost on hardware, in a terminal"
    yield ".SH SYNOPSIS\n.B hwexplorer\n[MODEL | STATE | VERB] [options]"
    yield ".SH DESCRIPTION"
    yield _safe("A word that is no verb opens the explorer on that model or state; without a terminal the comparison")
    yield _safe("is printed. Every report prints --format text, json, csv, md or html.")
    shared = {option.name: option for option in (*NODE.options, *EVERYWHERE.options, *OUTPUT, DEVICES_DIR)}
    yield ".SH VERBS"
    for name, line in registry.helps().items():
        verb = registry.load(name)
        yield f'.SS "hwexplorer {name}"\n{_safe(sentence(line))}'
        own = verb.options if isinstance(verb, Report) else verb.all_options()
        yield from _options(option for option in own if shared.get(option.name) != option)
        for words in shown(verb):
            yield f".PP\n.EX\n{_safe(f'hwexplorer {name} {words}'.rstrip())}\n.EE"
    yield ".SH COMMON OPTIONS"
    yield from _options(shared.values())
    yield ".SH TERMS"
    for term in terms():
        yield f".TP\n.B {_safe(term.name)}\n{_safe(term.says)}"
    yield ".SH EXIT STATUS"
    for code, meaning in _EXITS.items():
        yield f".TP\n.B {code}\n{_safe(meaning)}"
    yield f".SH FILES\n{_safe('hwexplorer doctor')} says where settings, sessions and captures are kept."


def _options(options: Iterable[Option]) -> Iterator[str]:
    for option in options:
        value = option.settings.get("metavar") or ""
        names = ", ".join(option.flags) if not option.is_word else str(value or option.name)
        head = names if option.is_word else f"{names} {value}".rstrip()
        yield f".TP\n.B {_safe(head)}\n{_safe(option.help.replace('%%', '%'))}"


def _safe(words: str) -> str:
    """Text that roff prints as it stands."""
    escaped = words.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
