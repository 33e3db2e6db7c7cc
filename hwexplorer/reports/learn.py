"""Six short lessons: predict first, then see what the model of the hardware says."""

from __future__ import annotations

import argparse
import math
import sys
from functools import lru_cache
from pathlib import Path

import msgspec

from analysis.estimate.causes import CAUSES, causes
from analysis.estimate.families import FAMILIES, family_energy
from analysis.estimate.metrics import METRICS
from hardware import files
from hardware.errors import unknown
from hardware.quantity import quantity
from hwexplorer import engine, headless, output
from hwexplorer import state as states
from hwexplorer.declare import Report, Subject
from hwexplorer.options import option
from hwexplorer.state import State
from hwexplorer.views.plain import Page, Text

PATH = Path(__file__).parents[1] / "lessons.toml"
# Figures of a run by their names in the lessons; others are shares of time and of energy.
_FIGURES = {name: METRICS[name] for name in ("latency", "energy", "edp", "throughput", "utilization")}
_OF_ENERGY = {"control": "instructions and control", "clock": "clock", "static": "static power"}


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question about one state, or two; see lessons.toml."""

    asks: str
    of: str
    a: str
    b: str = ""
    choices: tuple[float, ...]
    reveals: str


class Lesson(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    title: str
    text: tuple[str, ...]
    step: tuple[Step, ...]


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """A question with its answer, as it is today: `choice` is the nearest of those offered."""

    asks: str
    choices: tuple[str, ...]
    choice: int
    answer: float
    reveals: str
    open: tuple[str, ...]


class Learned(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    text: tuple[str, ...]
    steps: tuple[Answered, ...]


class Lessons(msgspec.Struct, frozen=True):
    lessons: tuple[Learned, ...]


@lru_cache(maxsize=1)
def lessons() -> tuple[Lesson, ...]:
    return msgspec.convert(files.table(PATH)["lesson"], tuple[Lesson, ...])


def _chosen(lesson: str | None) -> tuple[Lesson, ...]:
    """The lesson of a name or a number, or all. Raises RequestError."""
    names = {one.name: one for one in lessons()} | {str(i): one for i, one in enumerate(lessons(), 1)}
    if lesson is None:
        return lessons()
    if lesson not in names:
        raise unknown("lesson", lesson, names)
    return (names[lesson],)


class _Side:
    """The figures of a state, as values and as words."""

    def __init__(self, state: State) -> None:
        run = engine.result(state)
        self.values = {name: float(metric.of(run)) for name, metric in _FIGURES.items()}
        of = causes(run)
        time_s, energy_j = of.time_s.sum(axis=1), family_energy(run)
        self.values |= dict(zip(CAUSES, (time_s / (time_s.sum() or 1.0)).tolist(), strict=True))
        families = dict(zip(FAMILIES, (energy_j / (energy_j.sum() or 1.0)).tolist(), strict=True))
        self.values |= {name: families[family] for name, family in _OF_ENERGY.items()}

    def __getattr__(self, name: str) -> str:
        return quantity(self.values[name], _FIGURES[name].unit if name in _FIGURES else "%")


def _states(state: State, lesson: str | None) -> tuple[State, ...]:
    return tuple(
        states.parse(text) for one in _chosen(lesson) for step in one.step for text in (step.a, step.b) if text
    )


def _answered(step: Step) -> Answered:
    a = _Side(states.parse(step.a))
    b = _Side(states.parse(step.b)) if step.b else None
    value = a.values[step.of]
    if b is not None:
        value = max(value / b.values[step.of], b.values[step.of] / value)
    nearest = min(range(len(step.choices)), key=lambda i: abs(math.log(max(value, 1e-6) / step.choices[i])))
    return Answered(
        asks=step.asks,
        choices=tuple(f"{choice:g}x" if b is not None else f"{choice * 100:g} %" for choice in step.choices),
        choice=nearest,
        answer=value,
        reveals=step.reveals.format(answer=quantity(value, "%" if b is None else "x"), a=a, b=b),
        open=tuple(filter(None, (step.a, step.b))),
    )


def _document(state: State, lesson: str | None) -> Lessons:
    return Lessons(tuple(_learned(one) for one in _chosen(lesson)))


def _learned(lesson: Lesson) -> Learned:
    return Learned(name=lesson.name, title=lesson.title, text=lesson.text, steps=tuple(map(_answered, lesson.step)))


def _offered(step: Answered) -> str:
    return "   ".join(f"{i}) {choice}" for i, choice in enumerate(step.choices, 1))


def _view(state: State, lesson: str | None) -> Page:
    """The questions of a lesson first, its answers behind them."""
    document = _document(state, lesson)
    parts = [
        Text(
            one.name,
            f"{number}. {one.title}",
            (
                ("", one.text),
                *((step.asks, (_offered(step),)) for step in one.steps),
                ("Answers", tuple(line for step in one.steps for line in _shown(step))),
            ),
            folded=len(one.steps) + 1,
        )
        for number, one in enumerate(document.lessons, 1)
    ]
    return Page("learn", "Lessons: predict first", tuple(parts))


def _shown(step: Answered) -> tuple[str, ...]:
    return step.reveals, *(f"see it: hwexplorer '{text}'" for text in step.open)


def _run(arguments: argparse.Namespace) -> None:
    """At a terminal lessons ask and wait; everywhere else they are printed with their answers."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or arguments.format or arguments.output:
        headless.report("learn", VERB, arguments)
        return
    for lesson in _chosen(arguments.lesson):
        if not _played(lesson):
            return


def _played(lesson: Lesson) -> bool:
    """Whether it was played to its end."""
    output.put("\n".join((lesson.title, "", *lesson.text, "")))
    right = 0
    for step in map(_answered, lesson.step):
        output.put(f"\n{step.asks}\n  {_offered(step)}\n")
        guess = _guess(len(step.choices))
        if guess is None:
            return False
        right += guess == step.choice
        said, *links = _shown(step)
        output.put("\n".join(("  right: " * (guess == step.choice) + said, *links, "")))
    output.put(f"\n{right} of {len(lesson.step)} foreseen.\n\n")
    return True


def _guess(count: int) -> int | None:
    """What was typed, from 0; None at the end of the input."""
    while True:
        try:
            typed = input(f"  your guess (1-{count}, q ends): ").strip()
        except EOFError:
            return None
        if typed.lower() in ("q", "quit"):
            return None
        if typed.isdecimal() and 1 <= int(typed) <= count:
            return int(typed) - 1


VERB = Report(
    subject=Subject(),
    options=(option("lesson", nargs="?", metavar="LESSON", help="a lesson by number or name (default: all six)"),),
    document=_document,
    view=_view,
    states=_states,
    on_screen=False,
    run=_run,
    examples={"learn": "roofline"},
)
