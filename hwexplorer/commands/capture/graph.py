"""The operators as a graph with what each costs, for networkx, yEd, Gephi."""

import argparse

from analysis.model.ir.coverage import uncovered_note
from hwexplorer import engine
from hwexplorer.declare import DEVICE, Verb
from hwexplorer.export.render import encode
from hwexplorer.headless import asked_state
from hwexplorer.options import choice, option
from hwexplorer.process import output
from hwexplorer.reports.tree.partition import ModelGraph, model_graph, to_networkx
from hwexplorer.text.number_format import safe

SUFFIXES = {".json": "json", ".graphml": "graphml"}


def _run(arguments: argparse.Namespace) -> None:
    state = asked_state.state_from_arguments(arguments, DEVICE)
    asked_state.prepare_models((state,), arguments.strict)
    result = engine.result(state)
    makers = {"json": lambda graph: encode(graph, uncovered_note(result.workload, state.batch)), "graphml": _graphml}
    output.emit(arguments, lambda form: makers[form](model_graph(result)), SUFFIXES, default="json")


def _graphml(graph: ModelGraph) -> str:
    import networkx

    clean = networkx.relabel_nodes(to_networkx(graph), safe)
    for attributes in (clean.graph, *(values for _, values in clean.nodes.data())):
        attributes |= {name: safe(value) for name, value in attributes.items() if not isinstance(value, int | float)}
    return "\n".join(networkx.generate_graphml(clean)) + "\n"


VERB = Verb(
    options=(
        *DEVICE.options,
        choice("--format", ("json", "graphml"), metavar="F"),
        option("-o", "--output", metavar="FILE", help=f"write here; {', '.join(SUFFIXES)} pick the format"),
    ),
    run=_run,
    shown=("resnet50 --on gpu -o resnet50.graphml",),
)
