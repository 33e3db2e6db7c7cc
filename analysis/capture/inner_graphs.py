"""Inline the graphs that calls hold (branches, regions with another precision) into the graph around them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

# Regions: operators that execute their graph once. Name -> position of the graph and of its first argument.
_REGIONS = {
    "wrap_with_set_grad_enabled": (1, 2),
    "wrap_with_autocast": (4, 5),
    "wrap_activation_checkpoint": (0, 1),
    "tag_activation_checkpoint": (0, 1),
    "invoke_subgraph": (0, 2),
    "wrap": (0, 1),
}


class ExportError(Exception):
    """The model cannot be captured; the message is one line for the user. `where` is the stack of the call."""

    where: str = ""


@dataclass(frozen=True, slots=True)
class BoundValue:
    """A result with its final name, kept because its graph may be walked again under another prefix."""

    name: str
    value: Any
    prefix: str


class InnerGraphs:
    """Inlines the graphs inside calls. `calls` walks a graph; `resolve` and `name` then identify a value."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.alias: dict[Any, Any] = {}  # node of an inner graph or a call that holds one -> the value it stands for
        self.prefix: dict[Any, str] = {}
        self._storages: dict[Any, int] = {}

    def calls(self, graph: Any) -> Iterator[Any]:
        """Yield the nodes of a graph in order, with inner graphs in place of the calls that hold them."""
        for node in graph.nodes:
            if node.op != "call_function":
                yield node
                continue
            if (inner := self._inner(node)) is not None:
                module, arguments = inner
                yield from self._enter(module, f"{self.name(node)}.", [self._bound(x) for x in arguments])
                self.alias[node] = self.alias.pop(module.graph)
            elif not self._part(node):
                yield node

    def resolve(self, value: Any) -> Any:
        """Return the value behind an alias: a node of the walked graph, a `BoundValue`, or lists of these."""
        while isinstance(value, torch.fx.Node) and value in self.alias:
            value = self.alias[value]
        return value

    def name(self, node: Any) -> str:
        """Return the final name of a node."""
        return self.prefix.get(node.graph, "") + str(node.name)

    def storage(self, value: Any, prefix: str) -> int:
        """Return a number that identifies the memory behind a tensor in the graph of `prefix`."""
        try:
            key: Any = (prefix, value.untyped_storage()._cdata)
        except (NotImplementedError, RuntimeError):  # a tensor inside vmap has no storage
            key = ("no storage", len(self._storages))
        return self._storages.setdefault(key, len(self._storages))

    # --- calls with an inner graph

    def _inner(self, node: Any) -> tuple[Any, tuple[Any, ...]] | None:
        """Return the inner graph to inline and its arguments, or None for a plain call."""
        kind, arguments = _kind(node), node.args
        if kind == "cond" and len(arguments) == 4:
            branches = [self._module(branch) for branch in arguments[1:3]]
            if None in branches:
                return None
            self.notes.append("the longer branch of each torch.cond is counted")
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
        module = node.graph.owning_module
        for part in str(node.target).split("."):
            module = getattr(module, part, None)
        return module if isinstance(module, torch.fx.GraphModule) else None

    # --- inlining

    def _bound(self, value: Any) -> Any:
        value = self.resolve(value)
        if isinstance(value, (list, tuple)):
            return [self._bound(item) for item in value]
        if isinstance(value, torch.fx.Node) and value.op != "get_attr":
            prefix = self.prefix.get(value.graph, "")
            return BoundValue(prefix + str(value.name), value.meta.get("val"), prefix)
        return value

    def _enter(self, module: Any, prefix: str, arguments: Sequence[Any]) -> Iterator[Any]:
        """Yield the nodes of an inner graph, executed once. Store its results in `alias` under the graph."""
        graph = module.graph
        self.prefix[graph] = prefix
        places = [node for node in graph.nodes if node.op == "placeholder"]
        for place, argument in zip(places, arguments, strict=False):
            self.alias[place] = argument
            self._same_memory(place.meta.get("val"), prefix, argument)
        for node in self.calls(graph):
            if node.op == "output":
                self.alias[graph] = self._bound(node.args[0])
            elif node.op != "placeholder":
                yield node

    def _same_memory(self, inside: Any, prefix: str, argument: Any) -> None:
        """Give the placeholder of an inner graph the memory of its argument."""
        if (
            isinstance(inside, torch.Tensor)
            and isinstance(argument, BoundValue)
            and isinstance(argument.value, torch.Tensor)
        ):
            number = self.storage(argument.value, argument.prefix)
            self._storages[prefix, inside.untyped_storage()._cdata] = number

    def _part(self, node: Any) -> bool:
        """Bind a `getitem` of an inlined call to the selected result. Return False for any other node."""
        if getattr(node.target, "__name__", "") != "getitem":
            return False
        results = self.resolve(node.args[0])
        if not isinstance(results, list):
            return False
        self.alias[node] = results[node.args[1]]
        return True


def _kind(node: Any) -> str:
    return getattr(node.target, "__name__", "") if isinstance(node.target, torch._ops.HigherOrderOperator) else ""
