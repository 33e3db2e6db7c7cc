"""The stub of the package, hwexplorer/__init__.pyi: its functions with their arguments and documents, for editors and
type checkers."""

from collections.abc import Iterator
from inspect import Parameter
from types import UnionType
from typing import get_args, get_type_hints

from hwexplorer import api, registry

_HEAD = '''"""Written by `python -m lab.reference` from what each verb declares."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, overload

from analysis.capture.module_at_hand import capture as capture
from analysis.model.ir.workload import Workload
from hwexplorer.api import RequestError as RequestError
from hwexplorer.api import Result as Result
from hwexplorer.api import graph as graph
'''
_TYPES = """
__version__: str
_One = str | float | Path | Workload
_Value = _One | Sequence[_One] | None
"""


def stub() -> str:
    """Return hwexplorer/__init__.pyi."""
    names = sorted(name for name in registry.verbs() if api.is_function(name) and name not in api.__all__)
    functions = [_function(verb, section) for verb in names for section in registry.sections(verb) or (verb,)]
    imports = sorted({line for lines, _ in functions for line in lines})
    return "\n".join([_HEAD, *imports, _TYPES, *(t for _, t in functions)])


def _function(verb: str, section: str) -> tuple[list[str], str]:
    """Return the imports of the function of a verb, and its lines: one definition for each section."""
    union = get_type_hints(registry.load(section).document)["return"]  # type: ignore[union-attr]
    kinds = get_args(union) if isinstance(union, UnionType) else (union,)
    named = [kind for kind in kinds if kind.__module__.partition(".")[0] in ("analysis", "hwexplorer")]
    imports = [f"from {kind.__module__} import {kind.__name__}" for kind in named]
    document = " | ".join(kind.__name__ for kind in named) if len(named) == len(kinds) else "Any"
    says = registry.help_of(section)
    word = [f'section: Literal["{section}"]'] if f"{verb} {section}" == registry.full_name(section) else []
    head = f"def {verb}({', '.join([*word, *_arguments(section)])}) -> Result[{document}]:"
    overload = "@overload\n" if len(registry.sections(verb)) > 1 else ""
    return imports, f'{overload}{head}\n    """{says[0].upper()}{says[1:]}."""\n'


def _arguments(name: str) -> Iterator[str]:
    options, is_named = api.parameters(name), False
    for argument in api.signature(name).parameters.values():
        if argument.kind is Parameter.VAR_POSITIONAL:
            yield "*others: _One"
            is_named = True
            continue
        if argument.kind is Parameter.KEYWORD_ONLY and not is_named:
            yield "*"
            is_named = True
        settings = options[argument.name].settings
        choices = settings.get("choices")
        kind = "_Value"
        if settings.get("action") in ("store_true", "store_const"):
            kind = "bool | None"
        elif isinstance(choices, tuple):
            kind = f"Literal[{', '.join(map(repr, choices))}] | None".replace("'", '"')
        yield f"{argument.name}: {kind}{'' if argument.default is Parameter.empty else ' = ...'}"
