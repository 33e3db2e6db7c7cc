"""The operators as a graph with what each costs, for networkx, yEd, Gephi, Graphviz."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from itertools import chain

import msgspec

from analysis.model.ir.coverage import uncovered_note
from analysis.reports.model_graph import ModelGraph, model_graph, plain, to_networkx
from analysis.reports.operator_classes import OperatorTensor
from hwexplorer import engine
from hwexplorer.declare import DEVICE, Verb
from hwexplorer.export.render import encode
from hwexplorer.headless import asked_state
from hwexplorer.options import choice, option
from hwexplorer.process import output
from hwexplorer.text.number_format import safe

SUFFIXES = {".json": "json", ".graphml": "graphml", ".dot": "dot", ".gv": "dot"}


def _run(arguments: argparse.Namespace) -> None:
    state = asked_state.state_from_arguments(arguments, DEVICE)
    asked_state.prepare_models((state,), arguments.strict)
    result = engine.result(state)
    makers = {
        "json": lambda graph: encode(graph, uncovered_note(result.workload, state.batch)),
        "graphml": _graphml,
        "dot": _dot,
    }
    output.emit(arguments, lambda form: makers[form](model_graph(result)), SUFFIXES, default="json")


def _graphml(graph: ModelGraph) -> str:
    import networkx

    clean = networkx.relabel_nodes(to_networkx(graph), safe)
    for attributes in (clean.graph, *(values for _, values in clean.nodes.data())):
        attributes |= {name: safe(value) for name, value in attributes.items() if not isinstance(value, int | float)}
    return "\n".join(networkx.generate_graphml(clean)) + "\n"


def _dot(graph: ModelGraph) -> str:
    """Operators of a kernel stand in one box."""
    kernels: dict[str, list[str]] = {}
    for node in graph.nodes:
        kernels.setdefault(node.kernel, []).append(f"    {_quote(node.id)} [{_attributes(node, 'id')}];")
    boxes = ((f"  subgraph {_quote(f'cluster {name}')} {{", *nodes, "  }") for name, nodes in kernels.items())
    edges = (
        f"  {_quote(edge.source)} -> {_quote(edge.target)} [{_attributes(edge, 'source', 'target')}];"
        for edge in graph.edges
    )
    head = f"digraph {_quote(graph.model)} {{"
    lines: Iterable[str] = (head, "  node [shape=box];", *chain.from_iterable(boxes), *edges, "}")
    return "\n".join(lines) + "\n"


def _attributes(record: msgspec.Struct, *without: str) -> str:
    values = msgspec.structs.asdict(record)
    return ", ".join(f"{name}={_quote(value)}" for name, value in values.items() if name not in without)


def _quote(value: str | float | tuple[OperatorTensor, ...]) -> str:
    """Return a DOT string: a backslash would escape, a quote end it."""
    text = f"{value:.6g}" if isinstance(value, int | float) else safe(plain(value))
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


VERB = Verb(
    options=(
        *DEVICE.options,
        choice("--format", ("json", "graphml", "dot"), metavar="F"),
        option("-o", "--output", metavar="FILE", help=f"write here; {', '.join(SUFFIXES)} pick the format"),
    ),
    run=_run,
    shown=("resnet50 --on gpu -o resnet50.dot",),
)
