"""Calls that hold graphs of their own (branches, loops, regions with another precision) laid out flat."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

# Regions: the graph runs once, as it stands. Name -> position of the graph and of its first argument.
_REGIONS = {
    "wrap_with_set_grad_enabled": (1, 2),
    "wrap_with_autocast": (4, 5),
    "wrap_activation_checkpoint": (0, 1),
    "tag_activation_checkpoint": (0, 1),
    "invoke_subgraph": (0, 2),
    "wrap": (0, 1),
}


class Inline:
    """`calls` walks a graph with its inner graphs in place; `names` tells what a node's value is called then."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.alias: dict[Any, Any] = {}  # node of an inner graph or a call that holds one -> node(s) it stands for
        self.prefix: dict[Any, str] = {}

    def calls(self, graph: Any) -> Iterator[Any]:
        """The nodes of a graph in order, without the calls that hold graphs and the arguments of those."""
        for node in graph.nodes:
            inner = self._inner(node) if node.op == "call_function" else None
            if inner is not None:
                yield from self._enter(node, *inner)
            elif node.op == "call_function" and self._part(node):
                continue
            else:
                yield node

    def resolve(self, value: Any) -> Any:
        """The node, or list of nodes, that a value stands for."""
        while isinstance(value, torch.fx.Node) and value in self.alias:
            value = self.alias[value]
        return value

    def name(self, node: Any) -> str:
        return self.prefix.get(node.graph, "") + str(node.name)

    def _inner(self, node: Any) -> tuple[Any, tuple[Any, ...]] | None:
        """The inner graph that is counted and its arguments, or None for a plain call."""
        kind = getattr(node.target, "__name__", "") if isinstance(node.target, torch._ops.HigherOrderOperator) else ""
        arguments = node.args
        if kind == "cond" and len(arguments) == 4:
            branches = [self._module(branch) for branch in arguments[1:3]]
            if None in branches:
                return None
            self.notes.append("of each torch.cond the longer branch is counted")
            return max(branches, key=lambda branch: len(branch.graph.nodes)), tuple(arguments[3])
        if kind == "while_loop" and len(arguments) >= 3:
            body = self._module(arguments[1])
            self.notes.append("a loop whose length depends on the data is counted once")
            extra = tuple(arguments[3]) if len(arguments) > 3 else ()
            return (body, (*arguments[2], *extra)) if body is not None else None
        if kind in _REGIONS:
            place, first = _REGIONS[kind]
            module = self._module(arguments[place]) if len(arguments) > place else None
            return (module, tuple(arguments[first:])) if module is not None else None
        return None

    def _module(self, node: Any) -> Any:
        node = self.resolve(node)
        if not isinstance(node, torch.fx.Node) or node.op != "get_attr":
            return None
        found = node.graph.owning_module
        for part in str(node.target).split("."):
            found = getattr(found, part, None)
        return found if isinstance(found, torch.fx.GraphModule) else None

    def _enter(self, call: Any, module: Any, arguments: tuple[Any, ...]) -> Iterator[Any]:
        graph = module.graph
        places = [node for node in graph.nodes if node.op == "placeholder"]
        # A graph that is entered twice (invoke_subgraph) is walked twice, under another prefix.
        self.prefix[graph] = f"{self.name(call)}."
        self.alias.update(zip(places, (self.resolve(argument) for argument in arguments), strict=False))
        for node in self.calls(graph):
            if node.op == "output":
                results = node.args[0]
                self.alias[call] = (
                    [self.resolve(item) for item in results]
                    if isinstance(results, (list, tuple))
                    else self.resolve(results)
                )
            elif node.op != "placeholder":
                yield node

    def _part(self, node: Any) -> bool:
        """A `getitem` of a call that was laid out flat stands for one of its results."""
        if getattr(node.target, "__name__", "") != "getitem":
            return False
        whole = self.resolve(node.args[0])
        if not isinstance(whole, list):
            return False
        self.alias[node] = whole[node.args[1]]
        return True
