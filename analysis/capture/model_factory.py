"""Import a user's file as its author would, find the model factory in it by name, and call it.

The files that a capture imports are recorded with a fingerprint each, and packages with their versions. A fingerprint
is of the bytes that are executed: Python's cached bytecode may be older and is not loaded. Data files and environment
variables are not tracked.
"""

import importlib
import importlib.metadata
import importlib.util
import inspect
import sys
import sysconfig
from collections.abc import Sequence
from functools import partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

import torch

from analysis.capture import torch_settings
from analysis.model import store
from analysis.model.model_errors import CaptureError
from analysis.model.names import targets
from hardware.base.errors import hint

_FILES_MAX = 2000  # more are too many to read at each check whether a capture is current
_OURS = tuple(Path(__file__).resolve().parents[2] / name for name in ("analysis", "hardware", "hwexplorer"))
_PYTHON = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib"))
_INSTALLED = ("site-packages", "dist-packages")

_marks: dict[Path, str] = {}
_known: set[str] = set()
_get_code = SourceFileLoader.get_code


def start() -> None:
    """Record every import from now on."""
    _known.update(_tops())
    SourceFileLoader.get_code = _tracked_code  # type: ignore[method-assign]


def versions() -> dict[str, str]:
    """Return entries of `Workload.versions`: `file /home/me/net.py` -> fingerprint, `package timm` -> version."""
    for module in list(sys.modules.values()):
        name = getattr(module, "__file__", None)
        if isinstance(name, str) and _is_own(path := Path(name).absolute()) and path not in _marks:
            _marks[path] = targets.fingerprint(path)  # extensions, which _tracked_code does not load
    recorded = {store.FILE + str(path): mark for path, mark in sorted(_marks.items())}
    if len(recorded) > _FILES_MAX:
        recorded = {store.FILE: "too many to check each time"}  # no file has this name: never current
    owners = importlib.metadata.packages_distributions()
    for top in sorted(_tops() - _known):
        recorded |= {store.PACKAGE + name: store.version(name) for name in owners.get(top, ())}
    return recorded


def _tops() -> set[str]:
    return {name.partition(".")[0] for name in sys.modules}


def _tracked_code(self: Any, fullname: str) -> CodeType | None:
    path = Path(self.path).absolute()
    if not _is_own(path):
        return _get_code(self, fullname)
    data = self.get_data(self.path)
    _marks[path] = targets.mark([data])
    return self.source_to_code(data, self.path)  # type: ignore[no-any-return]


def _is_own(path: Path) -> bool:
    """Return True for a file of the user: not part of Python, of an installed package or of this product."""
    if any(part in path.parts for part in _INSTALLED) or path.suffix not in (".py", ".so", ".pyd"):
        return False
    return path.is_file() and not any(folder in path.parents for folder in (*_OURS, *_PYTHON))


Built = tuple[Any, Any]  # a module and the inputs that its factory returned with it, or None


def _import_module(target: targets.Target, file: Path) -> Any:
    """Import the module that holds the factory as its author would."""
    try:
        if not target.path.endswith(".py"):
            package = file.parent if file.name == "__init__.py" else file
            for folder in (str(package.parents[target.path.count(".")]), str(Path.cwd())):
                if folder not in sys.path:
                    sys.path.insert(0, folder)
            return importlib.import_module(target.path)
        sys.path.insert(0, str(file.parent))
        name = file.stem if file.stem.isidentifier() and file.stem not in sys.modules else "hwexplorer_model"
        spec = importlib.util.spec_from_file_location(name, file)
        if spec is None or spec.loader is None:
            raise CaptureError(f"{file.name} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module
    except CaptureError:
        raise
    except BaseException as error:
        raise CaptureError(torch_settings.explain(error, "importing it")) from None


def find(target: targets.Target, file: Path) -> Any:
    """Return the factory of a target. Raises a CaptureError that suggests the nearest name."""
    if target.is_program:
        return partial(torch.export.load, file)
    value = module = _import_module(target, file)
    for name in target.factory.split("."):
        if not hasattr(value, name):
            known = [key for key in vars(value) if not key.startswith("_")] if hasattr(value, "__dict__") else []
            own = [key for key in known if getattr(vars(value)[key], "__module__", "") == module.__name__]
            right = hint(name, known, f"it defines {', '.join(own[:6]) or 'nothing'}")
            raise CaptureError(f"{target.path} has no {name}; {right}")
        value = getattr(value, name)
    return value


def build(factory: Any, target: targets.Target) -> Built:
    """Return the module and the inputs that the factory returned, as `return model, (x, t)` or `model, {"x": x}`."""
    model, given = factory, None
    if not isinstance(model, torch.nn.Module):
        if not callable(model):
            raise CaptureError(f"{target.label} is a {type(model).__name__}, not a class or function to call")
        check_call(model, (), {}, f"{target.factory}() needs arguments", "write a function without any that calls it")
        model = model()
    if isinstance(model, tuple) and len(model) == 2:
        model, given = model
    model = getattr(model, "_orig_mod", model)  # unwraps torch.compile
    if isinstance(model, torch.export.ExportedProgram):
        model, given = model.module(), given if given is not None else model.example_inputs[0]
    if not isinstance(model, torch.nn.Module):
        raise CaptureError(f"{target.factory} gave a {type(model).__name__}, not a torch.nn.Module")
    refuse(model, target.factory)
    return model, getattr(model, "example_input_array", None) if given is None else given


def refuse(module: torch.nn.Module, name: str) -> None:
    """Raise a CaptureError for modules that hide what they compute."""
    for path, part in module.named_modules():
        where = f"{name}.{path}" if path else name
        if isinstance(part, torch.jit.ScriptModule):
            raise CaptureError(f"{where} is a TorchScript module; capture the nn.Module it was made from")
        if ".quantized" in type(part).__module__ and type(part).__module__.startswith("torch.ao.nn."):
            raise CaptureError(f"{where} holds packed integer weights; capture the float model, with --precision int8")


def check_call(function: Any, arguments: Sequence[Any], keywords: dict[str, Any], problem: str, remedy: str) -> None:
    """Raise a CaptureError if a function cannot be called with these arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some builtins have no signature
        return
    try:
        signature.bind(*arguments, **keywords)
    except TypeError as error:
        raise CaptureError(f"{problem}: {error}; {remedy}") from None
