"""A report from the command line: the words become a state, the answer goes where it was asked to go."""

from __future__ import annotations

import argparse

from hwexplorer.declare import Report
from hwexplorer.headless import asked_state
from hwexplorer.process import output
from hwexplorer.registry import Answer
from hwexplorer.state import State


class Failed(output.OutputError):
    """What had to hold does not. The message says by which figure; the output is complete."""


def answer(name: str, report: Report, arguments: argparse.Namespace, progress: output.Progress) -> Answer:
    """What a report finds about what the words describe; its models are captured where they must be."""
    state = asked_state.state(arguments, report.subject)
    own = [option for option in report.options if option.name not in State.__struct_fields__]
    options = {option.name: asked_state.value(option, arguments, report.subject) for option in own}
    if report.subject.options:
        asked_state.prepare(report.states(state, **options), arguments.strict)
        state = asked_state.at_its_batch(state, arguments)
        options = {n: asked_state.at_its_batch(v, arguments) if isinstance(v, State) else v for n, v in options.items()}
    if report.ticks:
        options["tick"] = progress.ticking(report.ticks)
    return Answer(name, state, **options)


def report(name: str, report: Report, arguments: argparse.Namespace) -> None:
    """Print a report, or write it. Raises Failed where it says that something is broken."""
    progress = output.Progress()
    answered = answer(name, report, arguments, progress)

    def make(form: str) -> str:
        with progress:
            made = answered.to_text(form, output.width())
        if form == "csv" and answered.gap:  # its first line names the columns
            output.complain(answered.gap)
        return made

    output.emit(arguments, make)
    if report.fails is not None and (broken := report.fails(answered.document)):
        raise Failed(broken)
