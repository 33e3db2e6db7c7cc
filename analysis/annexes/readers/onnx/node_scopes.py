"""Names of an ONNX file for people: nodes and the modules that they belong to."""

from __future__ import annotations

import ast

from analysis.annexes.readers.onnx.onnx_file import OnnxNode
from analysis.model.ir.operator_graph import Scope


def describe_node(node: OnnxNode) -> str:
    """Return type and name of a node, for a message."""
    kind = f"{node.domain}.{node.op}" if node.domain else node.op or "a node without a type"
    return kind + (f" {node.name[:60]!r}" if node.name else "")


# --- which module a node belongs to -----------------------------------------------------------------------


def scopes_of(node: OnnxNode) -> tuple[Scope, ...]:
    """Return the modules of a node, from what PyTorch's exporters leave: lists of module names and classes, or a name
    like `/layer1/layer1.0/conv1/Conv`. Other exporters name nodes by path as well."""
    metadata = dict(node.metadata)
    names = _parse_names(metadata.get("pkg.torch.onnx.name_scopes", ""))
    if names:
        kinds = _parse_names(metadata.get("pkg.torch.onnx.class_hierarchy", ""))
        pairs = [(name, kinds[place] if place < len(kinds) else "") for place, name in enumerate(names[:-1])]
        return tuple(Scope(name or "root", name, kind.rpartition(".")[2]) for name, kind in pairs)
    parts = [part for part in node.name.split("/") if part][:-1]
    path: list[str] = []
    for part in parts[:32]:
        if path and part.startswith(f"{path[-1]}."):
            path[-1:] = part.split(".")
        else:
            path.append(part)
    return tuple(Scope("/".join(path[: end + 1]), ".".join(path[: end + 1]), "") for end in range(len(path)))


def _parse_names(text: str) -> list[str]:
    """Return a list of strings as Python writes it, read without evaluating."""
    if not text.startswith("[") or len(text) > 10_000:
        return []
    try:
        parsed = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return [str(item) for item in parsed] if isinstance(parsed, list) else []
