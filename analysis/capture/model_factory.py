"""Import a user's file as its author would, find the model factory in it by name, and call it."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from analysis.capture import failure_text
from analysis.model.model_errors import CaptureError
from analysis.model.names import targets
from hardware.base.errors import hint

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
        raise CaptureError(failure_text.explain(error, "importing it")) from None


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
