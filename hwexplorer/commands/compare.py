"""`hwexplorer compare`: one model on several devices."""

from __future__ import annotations

import argparse

from hwexplorer.commands import common

LEVELS = ("summary", "detailed")


def arguments(parser: argparse.ArgumentParser) -> None:
    common.model_options(parser, devices="DEV,..")
    parser.add_argument("--baseline", metavar="DEV", help="the device others are compared with (default: the GPU)")
    parser.add_argument("--level", choices=LEVELS, default="summary", metavar="LEVEL", help=" or ".join(LEVELS))
    common.output_options(parser)


def run(arguments: argparse.Namespace) -> None:
    from hwexplorer.export.render import plain, render
    from hwexplorer.views.compare import compare

    state = common.state(arguments)
    common.prepare(state)

    def make(form: str) -> str:
        if form == "json" or arguments.level == "summary":
            return render(state, "compare", form, common.width())
        return plain(compare(state, arguments.level), form, common.width())

    common.emit(arguments, make)
