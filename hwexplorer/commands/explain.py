"""`hwexplorer explain`: why A costs more than B."""

from __future__ import annotations

import argparse

from hwexplorer.commands import common, own

METRICS = ("energy", "latency", "memory", "edp")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a model, a building block, or a state string")
    parser.add_argument("a", metavar="A", help="a device, with settings of its own if need be: h100_sxm@b8,fp16")
    parser.add_argument("b", metavar="B", help="another")
    parser.add_argument("--metric", choices=METRICS, default="edp", metavar="M", help=f"{', '.join(METRICS)}")
    common.scenario_options(parser)
    own.options(parser)
    common.output_options(parser)
    parser.set_defaults(on=None, several=True, baseline=None, node=None)


def run(arguments: argparse.Namespace) -> None:
    from hwexplorer import engine
    from hwexplorer.export.render import encode, plain
    from hwexplorer.state import State, pinned, replace
    from hwexplorer.views import explain as views

    state = common.state(arguments)

    def side(text: str) -> State:
        device, settings, _ = text.partition("@")
        engine.device(device)
        if settings:
            found = pinned(replace(state, pin=text))
            assert found is not None
            return found
        return replace(state, devices=(device,), on=device)

    sides = side(arguments.a), side(arguments.b)
    for each in sides:
        common.prepare(replace(each, devices=(each.on,)))
    found = views.explanation(*sides, arguments.metric)

    def make(form: str) -> str:
        if form == "json":
            return encode(found)
        return plain(views.tables_only(views.view(found), form), form, common.width())

    common.emit(arguments, make)
