"""`hwexplorer compare`: one model on several devices, as a whole or node by node."""

from __future__ import annotations

import argparse

from hwexplorer.commands import common

LEVELS = ("summary", "detailed", "subgraph", "operator", "progression")
METRICS = ("edp", "energy", "latency")


def arguments(parser: argparse.ArgumentParser) -> None:
    common.model_options(parser, devices="DEV,..")
    parser.add_argument("--baseline", metavar="DEV", help="the device others are compared with (default: the GPU)")
    parser.add_argument("--level", choices=LEVELS, default="summary", metavar="LEVEL", help=", ".join(LEVELS))
    parser.add_argument(
        "--metric", choices=METRICS, metavar="M", help=f"of subgraphs and operators: {', '.join(METRICS)}"
    )
    common.output_options(parser)


def run(arguments: argparse.Namespace) -> None:
    from msgspec import structs

    from hwexplorer.export.render import plain, render
    from hwexplorer.state import replace
    from hwexplorer.views.compare import compare, comparison

    state = common.state(arguments)
    common.prepare(state)
    if arguments.metric is not None:
        state = replace(state, metric=arguments.metric)
    if arguments.level in ("subgraph", "operator"):
        from hwexplorer.views import levels

        nodes = levels.levels(state, arguments.level)
        common.show(arguments, lambda: levels.view(state, nodes), lambda: nodes)
        return
    if arguments.level == "progression":
        from hwexplorer.views import levels

        steps = levels.progression(state)
        common.show(arguments, lambda: levels.progression_view(state, steps), lambda: steps)
        return

    def make(form: str) -> str:
        if form == "json" or arguments.level == "summary":
            return render(state, "compare", form, common.width())
        table = compare(state, arguments.level)
        steps = tuple(f"next: {command}" for command in comparison(state).next)
        return plain(structs.replace(table, footer=(*table.footer, *steps)), form, common.width())

    common.emit(arguments, make)
