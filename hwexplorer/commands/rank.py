"""`hwexplorer rank`: models on one device, with their published accuracy."""

from __future__ import annotations

import argparse

from hardware.errors import RequestError
from hwexplorer.commands import common, own

ORDERS = ("energy", "latency", "throughput", "accuracy", "edp")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="*", metavar="MODEL", help="models (default: all shipped ones of the family)")
    parser.add_argument("--family", default="classification", metavar="F", help="family without models named")
    parser.add_argument("--sort", choices=ORDERS, default="energy", metavar="BY", help=f"{', '.join(ORDERS)}")
    common.scenario_options(parser)
    own.options(parser)
    parser.add_argument("--on", metavar="DEV", help="a device (default: the GPU)")
    parser.set_defaults(several=False, baseline=None, node=None)
    common.output_options(parser)


def run(arguments: argparse.Namespace) -> None:
    from analysis.decide.choose import rank
    from analysis.decide.cost import settings
    from analysis.workload import store, zoo
    from analysis.workload.sources.transformer import spec as transformer_spec
    from hardware.errors import unknown
    from hwexplorer import engine
    from hwexplorer.state import replace
    from hwexplorer.views import choose

    transformers = {name: transformer_spec.listed(name).family for name in transformer_spec.names()}
    families = (*zoo.FAMILIES, *dict.fromkeys(transformers.values()))
    if arguments.family not in families:
        raise unknown("family", arguments.family, families)
    captured = [
        info.name
        for info in zoo.models(arguments.family)
        if arguments.image_size is not None or store.is_ready(info.name)
    ]
    written = [name for name, family in transformers.items() if family == arguments.family]
    names = tuple(dict.fromkeys(arguments.models)) or (*captured, *written)
    if any(not name.strip() for name in names):
        raise RequestError("a model is an empty word (hwexplorer models lists them)")
    arguments.model = names[0]
    state = common.state(arguments)
    states = [replace(state, model=name) for name in names]
    for each in states:
        common.prepare(each)
    found = rank([engine.result(each) for each in states], settings(), arguments.sort)
    common.show(arguments, lambda: choose.rank(found), lambda: found)
