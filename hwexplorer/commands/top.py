"""Options of verbs that list the largest nodes: how many."""

from __future__ import annotations

import argparse

from hwexplorer.commands import common

TOP_MAX = 100_000


def option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--top", type=common.whole(1, TOP_MAX), default=10, help="nodes listed (default 10)")


def run(arguments: argparse.Namespace) -> None:
    """Prints the report that the verb is named after, with its `top`."""
    from hwexplorer.export.render import encode, plain
    from hwexplorer.views import reports

    state = common.state(arguments)
    common.prepare(state)

    def make(form: str) -> str:
        if form == "json":
            return encode(reports.document(arguments.verb, state, top=arguments.top))
        return plain(reports.build(arguments.verb, state, top=arguments.top), form, common.width())

    common.emit(arguments, make)
