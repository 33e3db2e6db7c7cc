"""Answer a report from the command line: convert the words to a state, and print or write the answer."""

import argparse
from types import UnionType
from typing import Any, get_args, get_type_hints

from hwexplorer import registry
from hwexplorer.answer import Answer as Answer
from hwexplorer.declare import Report
from hwexplorer.export.render import json_schema
from hwexplorer.headless import asked_state
from hwexplorer.process import output
from hwexplorer.state import State
from hwexplorer.text.number_format import to_ascii


def find_answer(name: str, arguments: argparse.Namespace, progress: output.Progress) -> Answer[Any]:
    """Return the answer of a report about the state of the arguments. Capture its models if necessary."""
    report = registry.load(name)
    assert isinstance(report, Report)
    state = asked_state.state_from_arguments(arguments, report.subject)
    options_of_report = [option for option in report.options if option.name not in State.__struct_fields__]
    options = {option.name: asked_state.option_value(option, arguments, report.subject) for option in options_of_report}
    if report.subject.options:
        asked_state.prepare_models(report.states(state, **options), arguments.strict)
        state = asked_state.with_fixed_batch(state, arguments)
        options = {name: _at_fixed_batch(value, arguments) for name, value in options.items()}
    if report.ticks:
        options["tick"] = progress.ticking(report.ticks)
    return Answer(name, state, arguments.devices_dir, **options)


def _at_fixed_batch(value: Any, arguments: argparse.Namespace) -> Any:
    """Return a state, or the states among words, at the only batch of its model; any other value as it is."""
    if isinstance(value, tuple):
        return tuple(_at_fixed_batch(each, arguments) for each in value)
    return asked_state.with_fixed_batch(value, arguments) if isinstance(value, State) else value


def print_schema(name: str) -> None:
    """Print the JSON schema of a report, and of the report that replaces it under a load."""
    kinds = list[Any]()
    declared = registry.load(name)
    assert isinstance(declared, Report)
    for report in (declared, declared if declared.served is None else declared.served(declared)):
        union = get_type_hints(report.document)["return"]
        kinds += get_args(union) if isinstance(union, UnionType) else [union]
    output.put(json_schema(f"hwexplorer {registry.full_name(name)}", tuple(dict.fromkeys(kinds))))


def print_report(name: str, arguments: argparse.Namespace) -> None:
    """Print a report, or write it. Raises OutputError, after the output, if a rule does not hold."""
    progress = output.Progress()
    with progress:
        answer = find_answer(name, arguments, progress)

    def make(form: str) -> str:
        """Return the answer in a format, in colour if it is text for a terminal."""
        with progress:
            printed = answer.to_text(form, output.width(), arguments.all)
        if form == "csv" and answer.missing_rules:  # its first line names the columns
            output.complain(answer.missing_rules)
        printed = to_ascii(printed) if arguments.ascii else printed
        if form != "text" or arguments.output is not None or not output.is_terminal():
            return printed
        from hwexplorer.export.terminal import paint  # not needed for a pipe

        return paint(printed)

    output.emit(arguments, make, answer.suffixes)
    if broken_rules := answer.broken_rules:
        raise output.OutputError(broken_rules)
