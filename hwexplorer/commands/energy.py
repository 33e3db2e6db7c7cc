"""`hwexplorer energy`: where the energy goes: components, power, idle losses, top consumers."""

from __future__ import annotations

import argparse

from hwexplorer.commands import common, view

TOP_MAX = 100_000


def arguments(parser: argparse.ArgumentParser) -> None:
    view.arguments(parser)
    parser.add_argument("--top", type=common.whole(1, TOP_MAX), default=10, help="consumers listed (default 10)")


def run(arguments: argparse.Namespace) -> None:
    from hwexplorer.export.render import encode, plain
    from hwexplorer.views import reports

    state = common.state(arguments)
    common.prepare(state)

    def make(form: str) -> str:
        if form == "json":
            return encode(reports.document(arguments.verb, state, top=arguments.top))
        return plain(reports.build(arguments.verb, state, top=arguments.top), form, common.width())

    common.emit(arguments, make)
