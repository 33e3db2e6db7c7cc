"""`hwexplorer pareto`: what no other configuration beats in energy and latency (and accuracy, over models)."""

from __future__ import annotations

import argparse

from hwexplorer.commands import choices, common


def arguments(parser: argparse.ArgumentParser) -> None:
    common.model_options(parser, devices="DEV,..")
    parser.add_argument("--models", metavar="M,..", help="other models as well; accuracy becomes an objective")
    choices.grid_options(parser)
    common.output_options(parser)


def run(arguments: argparse.Namespace) -> None:
    from analysis.decide.choose import pareto
    from hwexplorer.views import choose

    others = common.listed(arguments.models, "model") if arguments.models is not None else ()
    models = tuple(dict.fromkeys((common.state(arguments).model, *others))) if others else ()
    found = pareto(choices.evaluated(arguments, models, all_devices=True), bool(others))
    common.show(arguments, lambda: choose.pareto(found), lambda: found)
