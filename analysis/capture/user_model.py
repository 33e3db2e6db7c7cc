"""Capture a user's model: load its file, call its factory, export its forward pass. This executes the user's code."""

import inspect
import io
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn.modules.lazy import LazyModuleMixin
from torch.utils._pytree import SUPPORTED_NODES, tree_map

from analysis.capture import kv_caches, library_models, model_factory, torch_settings
from analysis.capture.exporter import MAX_BATCH, Inputs, export, register_class, register_objects, tensors_in
from analysis.capture.model_factory import Built, check_call
from analysis.capture.torch_settings import WholeMasks, import_torchvision, remove_classes, without_weights
from analysis.model.ir import workload
from analysis.model.ir.operator_graph import Graph
from analysis.model.ir.workload import Workload
from analysis.model.lowering.graph_lowering import lower_graph
from analysis.model.model_errors import CaptureError, ModelError
from analysis.model.names import targets
from analysis.model.reading_budget import Progress
from hardware.known_architectures import TORCH_HOST

UNWATCHED = "captured from its code; data files and environment variables are not watched: --again captures it again"


def capture_target(target: targets.Target, progress: Progress) -> Workload:
    """Return the workload of a factory. Raises a `CaptureError` that says in one line what went wrong and where."""
    file = targets.source(target)
    torch_settings.user_folders.append(str(file.parent))
    model_factory.start()
    progress("build", 0.3)
    with suppress(Exception):  # else the user's code cannot import it if its operators do not load
        import_torchvision()
    if target.is_library:
        build = partial(library_models.build, target)
    else:
        build = partial(model_factory.build, model_factory.find(target, file), target)
    ways = ("real",) if target.is_program else ("none", "real")
    graph = _capture(build, target.inputs, target.batch_dim, progress, ways)
    progress("lower", 0.95)
    notes = (UNWATCHED,) * (not target.is_program)
    versions = {"torch": graph.versions["torch"], **model_factory.versions()}
    graph = replace(graph, versions=versions, notes=(*notes, *graph.notes))
    return lower_graph(graph, target.label, "custom", str(file))


def capture_module(module: Any, inputs: Any, batch_dim: int | None, name: str) -> Workload:
    """Return the workload of a torch module or function, whose weights and training mode do not change. Arrays become
    tensors. If no tensor is given, shapes become tensors of zeros."""
    if not isinstance(module, torch.nn.Module):
        module = _Function(module)
    inputs = tree_map(lambda value: torch.as_tensor(value) if isinstance(value, np.ndarray) else value, inputs)
    register_objects(inputs)
    if not tensors_in(inputs):
        inputs = tree_map(lambda value: torch.zeros(value) if _is_shape(value) else value, inputs, is_leaf=_is_shape)
    was_training = module.training
    quiet = io.StringIO()
    try:
        with redirect_stdout(quiet), redirect_stderr(quiet):  # torch prints graphs before it raises
            graph = _capture(lambda: (module, inputs), (), batch_dim, lambda phase, fraction: None, ways=("real",))
    finally:
        remove_classes()
        module.train(was_training)
    return lower_graph(replace(graph, versions={"torch": graph.versions["torch"]}), name, "custom", "python")


class _Function(torch.nn.Module):  # type: ignore[misc]
    """A function as a module without weights."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.forward = function


def _is_shape(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and bool(value) and all(type(size) is int for size in value)


def as_arguments(module: torch.nn.Module, given: Any) -> Inputs:
    """Return example inputs as arguments: one for a tensor, several for a tuple or list, keywords for a dictionary (or
    one argument if the keys are not parameters of the model)."""
    if isinstance(given, dict):
        with suppress(TypeError, ValueError):
            inspect.signature(module.forward).bind(**given)
            return (), dict(given)
    several = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    return () if given is None else several, {}


# --- exporting it -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Way:
    """A way to capture. `weights`: 'none' allocates no weights, 'real' builds the model as it is. `live`: the batch is
    symbolic. `cached`: a language model returns its key-value cache."""

    weights: str
    live: bool
    cached: bool = True
    most: int = MAX_BATCH


def _capture(
    build: Callable[[], Built],
    inputs: Sequence[targets.Input],
    batch_dim: int | None,
    progress: Progress,
    ways: Iterable[str] = ("none", "real"),
) -> Graph:
    """Return the graph, without weights and for any batch if possible. Otherwise try the given batch and real weights,
    unless a failure depends on neither. Raises a `CaptureError` for the failure."""
    batches = (True, False) if batch_dim is not None else (False,)
    notes: list[str] = []
    failures: list[tuple[_Way, BaseException]] = []
    attempts = [_Way(weights, live) for weights in ways for live in batches]
    while attempts:
        way = attempts.pop(0)
        try:
            graph = _attempt(build, inputs, batch_dim, way, progress)
        except _OneGraph:
            batch_dim, attempts = (
                None,
                [replace(way, live=False), *(one for one in attempts if not one.live)],
            )
            notes = ["its inputs are one graph: --batch 1, nodes and edges as given, no edge from a node to itself"]
            continue
        except ModelError:
            raise
        except BaseException as error:
            failures.append((way, error))
            if (kind := torch_settings.class_in_results(error)) is not None and kind not in SUPPORTED_NODES:
                register_class(kind)
                attempts = [way, *attempts]
            elif way.cached and "Cache" in str(error):
                attempts = [replace(attempt, cached=False) for attempt in (way, *attempts)]
            elif way.live and (batch_limit := torch_settings.largest_batch(error)) and batch_limit < way.most:
                attempts = [replace(way, most=batch_limit), *attempts]
            elif torch_settings.is_final(error) or (
                way.weights == "none"
                and not way.live
                and not torch_settings.is_of_weights(error)
                and _repeats(failures)
            ):
                break
            continue
        notes = [*graph.notes, *notes]
        if not way.cached:
            notes.append("captured with use_cache off: its cache is not counted")
        if way.live and way.most < MAX_BATCH:
            why = f"its code takes another path for larger ones ({torch_settings.reason(failures[-1][1])})"
            notes.append(workload.range_note(way.most, why))
        if batch_dim is not None and not way.live:
            why = torch_settings.reason(next(e for old, e in failures if old.live))
            batch = next((item.shape[batch_dim] for item in graph.inputs if len(item.shape) > batch_dim), 1)
            notes.append(workload.fixed_note(int(batch), f"the model fixes it ({why})"))
        return replace(graph, notes=tuple(notes))
    raise CaptureError(_verdict(failures)) from None


def _repeats(failures: list[tuple[_Way, BaseException]]) -> bool:
    """Return True if the last two failures have the same reason."""
    reasons = [torch_settings.reason(error) for _, error in failures[-2:]]
    return len(reasons) == 2 and reasons[0] == reasons[1] and not isinstance(failures[-1][1], _BuildFailure)


def _verdict(failures: list[tuple[_Way, BaseException]]) -> str:
    """Explain the last failure. If it only ran out of memory, explain the second one instead."""
    errors = [error for _, error in failures]
    failure = errors[-1]
    if torch_settings.is_memory(failure) and not torch_settings.is_memory(errors[0]):
        failure = errors[min(1, len(errors) - 1)]
    return torch_settings.explain(failure, "building it" if isinstance(failure, _BuildFailure) else "its forward pass")


class _OneGraph(Exception):
    """The inputs are nodes and edges, so dimension 0 is not a batch."""


class _BuildFailure(Exception):
    """Marks an error that a factory raised, its `__cause__`."""


def _attempt(
    build: Callable[[], Built],
    inputs: Sequence[targets.Input],
    batch_dim: int | None,
    way: _Way,
    progress: Progress,
) -> Graph:
    device = "meta" if way.weights == "none" else TORCH_HOST
    try:
        with without_weights() if way.weights == "none" else nullcontext():
            module, given = build()
    except ModelError:
        raise
    except BaseException as error:
        raise _BuildFailure from error
    kv_caches.register()
    register_objects(given)
    if not way.cached and hasattr(module, "config"):
        module.config.use_cache = False
    given = as_arguments(module, given)
    (arguments, keywords), dims = _inputs(module, inputs, given, batch_dim, way.live, device)
    progress("export", 0.45)
    count = len(arguments) + len(keywords)
    if not count:
        raise CaptureError(
            f"{type(module).__name__} needs an input: --input 1x3x224x224, or let the factory return (model, inputs)"
        )
    check_call(
        module.forward,
        arguments,
        keywords,
        f"{type(module).__name__}.forward: {count} input{'s' if count != 1 else ''} given",
        "one --input for each, as --input 1x3x224x224, or let the factory return (model, {name: value})",
    )
    is_graph = _edges(module, arguments, keywords)
    if way.live and is_graph:
        raise _OneGraph
    if any(isinstance(part, LazyModuleMixin) for part in module.modules()):
        with torch.no_grad():  # lazy modules take their sizes from their first inputs
            module(*arguments, **keywords)
    with WholeMasks() if is_graph else nullcontext():
        return export(module, arguments, batch_dims=dims, keywords=keywords, most=way.most)


def _edges(module: Any, arguments: Sequence[Any], keywords: dict[str, Any]) -> bool:
    """Return True if an input is a list of edges, two nodes each."""
    values = inspect.signature(module.forward).bind(*arguments, **keywords).arguments
    tensors = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
    # If an input holds features of nodes, integers of shape (2, n) are edges, whatever their name.
    has_nodes = any(value.is_floating_point() and value.ndim == 2 and len(value) != 2 for value in tensors.values())
    return any(
        (name.startswith(("edge", "adj")) or (has_nodes and value.ndim == 2))
        and not value.is_floating_point()
        and value.ndim > 0
        and len(value) == 2
        for name, value in tensors.items()
    )


def _inputs(
    module: Any, inputs: Sequence[targets.Input], given: Inputs, batch_dim: int | None, live: bool, device: str
) -> tuple[Inputs, list[int | None]]:
    """Return example inputs and the batch dimension of each tensor; None if it is not as large there as the first."""
    if inputs:
        tensors = [torch.empty(x.shape, dtype=getattr(torch, x.dtype), device="meta") for x in inputs]
        by_input = {x.name: tensor for x, tensor in zip(inputs, tensors, strict=True) if x.name}
        arguments, by_name = _assigned(
            module, [tensor for x, tensor in zip(inputs, tensors, strict=True) if not x.name]
        )
        given = arguments, by_name | by_input
    shapes = [list(value.shape) for value in tensors_in(given)]
    if not live or batch_dim is None:
        dims: list[int | None] = [None] * len(shapes)
    else:
        batch_size = next((shape[batch_dim] for shape in shapes if len(shape) > batch_dim), None)
        if shapes and batch_size is None:
            raise CaptureError(f"no input has a dimension {batch_dim}; --batch-dim none captures without a batch")
        dims = [batch_dim if len(shape) > batch_dim and shape[batch_dim] == batch_size else None for shape in shapes]
    positions = iter(dims)

    def _prepare(value: Any) -> Any:
        """Return zeros in place of a tensor, at batch 2 or more: torch.export takes a size of 1 for a constant."""
        if not isinstance(value, torch.Tensor):
            return value
        position, shape = next(positions), list(value.shape)
        if position is not None:
            shape[position] = max(shape[position], 2)
        return torch.zeros(shape, dtype=value.dtype, device=device)

    return tree_map(_prepare, given), dims


def _assigned(module: Any, tensors: list[Any]) -> Inputs:
    """Return tensors as arguments. The last ones go to the required keyword-only parameters."""
    parameters = inspect.signature(module.forward).parameters.values()
    names = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if not names or len(tensors) <= len(names):
        return tuple(tensors), {}
    return tuple(tensors[: -len(names)]), dict(zip(names, tensors[-len(names) :], strict=True))
