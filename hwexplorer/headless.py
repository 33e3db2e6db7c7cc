"""A report from the command line: the words become a state, the answer goes where it was asked to go."""

from __future__ import annotations

import argparse

from hwexplorer import output, request
from hwexplorer.declare import Report
from hwexplorer.registry import Answer
from hwexplorer.state import State


class Failed(output.OutputError):
    """What had to hold does not. The message says by which figure; the output is complete."""


def report(name: str, report: Report, arguments: argparse.Namespace) -> None:
    """Print a report, or write it. Raises Failed where it says that something is broken."""
    state = request.state(arguments, report.subject)
    own = [option for option in report.options if option.name not in State.__struct_fields__]
    options = {option.name: option.given(arguments) for option in own}
    if report.subject.options:
        request.prepare(report.states(state, **options), arguments.strict)
    progress = output.Progress()
    if report.ticks:
        options["tick"] = progress.ticking(report.ticks)
    answer = Answer(name, state, **options)

    def make(form: str) -> str:
        with progress:
            return answer.told(form, output.width())

    output.emit(arguments, make)
    if report.fails is not None and (broken := report.fails(answer.document)):
        raise Failed(broken)
