"""`hwexplorer device NAME`: one device with the source of every fact."""

from __future__ import annotations

import argparse

from hwexplorer.commands import common


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("device", help="a device id, id:power_mode, alias, or class")
    common.output_options(parser)


def run(arguments: argparse.Namespace) -> None:
    from hwexplorer import documents
    from hwexplorer.export.render import encode, plain
    from hwexplorer.views.devices import device

    def make(form: str) -> str:
        if form == "json":
            return encode(documents.device(arguments.device))
        return plain(device(arguments.device), form, common.width())

    common.emit(arguments, make)
