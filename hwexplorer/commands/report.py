"""`hwexplorer report`: everything about one model on one device, as text, Markdown or a page to open offline."""

from __future__ import annotations

import argparse

from hwexplorer.commands import common


def arguments(parser: argparse.ArgumentParser) -> None:
    common.model_options(parser, devices="DEV")
    common.output_options(parser)


def run(arguments: argparse.Namespace) -> None:
    from hwexplorer.export.render import encode, plain
    from hwexplorer.views import report

    state = common.state(arguments)
    common.prepare(state)

    def make(form: str) -> str:
        if form == "json":
            return encode(report.document(state))
        built = report.view(state)
        return plain(built if form == "html" else report.plain(built), form, common.width())

    common.emit(arguments, make)
