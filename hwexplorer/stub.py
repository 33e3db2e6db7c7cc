"""The types of the package: `hwexplorer/__init__.pyi`, made of what each report declares."""

from __future__ import annotations

import inspect
import types
import typing
from collections import Counter
from collections.abc import Mapping
from typing import Any

from hwexplorer import api, registry

_HEAD = '''"""Made by `python -m hwexplorer.generated` of what each report declares: the functions and their types."""

{imports}

from hwexplorer.api import Model as Model
from hwexplorer.api import RequestError as RequestError
from hwexplorer.api import Result as Result
from hwexplorer.api import model as model

__version__: str

def capture(model: Any, inputs: Any, *, batch_dim: int | None = 0, name: str = "") -> Captured: ...
'''
_ALWAYS = {("typing", "Any"), ("typing", "TypedDict"), ("typing", "Unpack"), ("analysis.capture.notebook", "Captured")}
Keywords = dict[str, str]


def text() -> str:
    functions = {name: api.function(name) for name in filter(api.is_function, registry.names())}
    imports = set(_ALWAYS)
    keywords: dict[str, Keywords] = {}
    heads: dict[str, tuple[str, str]] = {}
    for name, function in functions.items():
        signature = inspect.signature(function)
        typed = {each.name: written(each.annotation, imports) for each in signature.parameters.values()}
        told = [
            f"{each.name}: {typed.pop(each.name)}" + " = ..." * (each.default is None)
            for each in signature.parameters.values()
            if each.kind is each.POSITIONAL_OR_KEYWORD
        ]
        keywords[name] = typed
        heads[name] = ", ".join(told), written(signature.return_annotation, imports)
    shared = _shared(keywords)
    parts = [_class(name, fields) for name, fields in shared.items()]
    for name, function in functions.items():
        group = max((g for g in shared if shared[g].items() <= keywords[name].items()), key=lambda g: len(shared[g]))
        own = [f"    {key}: {kind} = ...,\n" for key, kind in keywords[name].items() if key not in shared[group]]
        words, answer = heads[name]
        first = f"    {words},\n" * bool(words) + "    *,\n" * bool(own) + "".join(own)
        doc = (function.__doc__ or "").partition("\n")[0]
        parts.append(f'def {name}(\n{first}    **options: Unpack[{group}],\n) -> {answer}:\n    """{doc}"""\n')
    by_module: dict[str, set[str]] = {}
    for module, imported in imports:
        by_module.setdefault(module, set()).add(imported)
    lines = [f"from {module} import {', '.join(sorted(by_module[module]))}" for module in sorted(by_module)]
    return _HEAD.format(imports="\n".join(lines)) + "\n" + "\n".join(parts)


def _shared(keywords: Mapping[str, Keywords]) -> dict[str, Keywords]:
    """Keywords that many functions have: of all, of those about a model, and of those about runs on devices."""
    counts = Counter(key for typed in keywords.values() for key in typed)
    everywhere = {key: kind for key, kind in keywords["models"].items() if counts[key] == len(keywords)}
    about_model = keywords["partition"]
    about_runs = {key: kind for key, kind in keywords["tree"].items() if keywords["compare"].get(key) == kind}
    return {"_Options": everywhere, "_Inputs": about_model, "_Scenario": about_runs}


def _class(name: str, fields: Keywords) -> str:
    lines = "".join(f"    {key}: {kind}\n" for key, kind in fields.items())
    return f"class {name}(TypedDict, total=False):\n{lines}"


def written(kind: Any, imports: set[tuple[str, str]]) -> str:
    """A type as source; what it takes to write it joins the imports."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    # In an order of its own: typing remembers unions, and choices in them, in the order that a process saw first.
    if origin in (types.UnionType, typing.Union):
        return " | ".join(sorted({written(each, imports) for each in inner}, key=lambda name: (name == "None", name)))
    if kind in (None, types.NoneType):
        return "None"
    if origin is typing.Literal:
        imports.add(("typing", "Literal"))
        return f"Literal[{', '.join(sorted(map(repr, inner)))}]".replace("'", '"')
    if origin is not None:
        return f"{written(origin, imports)}[{', '.join(written(each, imports) for each in inner)}]"
    if kind is Ellipsis:
        return "..."
    name: str = getattr(kind, "__name__", "Any")
    if kind.__module__ not in ("builtins", api.__name__):
        imports.add((kind.__module__, name))
    return name
