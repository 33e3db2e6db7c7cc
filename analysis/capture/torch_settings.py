"""Settings of torch and torchvision for an export."""

import ast
import linecache
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial, partialmethod
from typing import Any
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from analysis.capture.failure_text import NO_GRADIENTS

_kept: list[Any] = []  # operator libraries: their declarations vanish with the object
_classes: list[Any] = []  # those whose objects torch looks into during a capture


def import_torchvision() -> Any:
    """Import torchvision. If its compiled operators do not load (a build for another torch), declare `nms` and `qnms`
    first. A second declaration of a working operator would abort the process."""
    try:
        import torchvision
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _kept.append(library)
        import torchvision
    return torchvision


class _AllocateOnMeta(TorchFunctionMode):  # type: ignore[misc]
    """Sends the factories that allocate weights to the meta device; `arange`, `linspace` and `tensor` stay
    real, because some constructors read their values (RegNet)."""

    _FACTORIES = frozenset(
        (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn, torch.empty_strided)
    )

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in self._FACTORIES and kwargs.get("device") is None:
            kwargs["device"] = "meta"
        try:
            return func(*args, **kwargs)
        except RuntimeError as error:
            if "device meta" not in str(error):
                raise
        # A call with real and allocated tensors: all of them without memory.
        args, kwargs = pytree.tree_map(lambda x: x.to("meta") if isinstance(x, torch.Tensor) else x, (args, kwargs))
        return func(*args, **kwargs)


class WholeMasks(TorchFunctionMode):  # type: ignore[misc]
    """Makes a Boolean mask select its whole dimension: how many self-edges of a graph it removes depends on data."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.__getitem__:
            places = args[1] if isinstance(args[1], tuple) else (args[1],)
            masks = [isinstance(one, torch.Tensor) and one.dtype == torch.bool and one.dim() == 1 for one in places]
            args = (args[0], tuple(slice(None) if mask else one for one, mask in zip(places, masks, strict=True)))
        return func(*args, **(kwargs or {}))


@contextmanager
def without_weights() -> Iterator[None]:
    """Build modules without memory for weights. Loading weights does nothing."""
    with ExitStack() as stack:
        stack.enter_context(_AllocateOnMeta())
        stack.enter_context(patch.object(torch.nn.Module, "load_state_dict", lambda *a, **k: None))
        weights_enum = _weights_enum()
        if weights_enum is not None:
            stack.enter_context(patch.object(weights_enum, "get_state_dict", lambda *a, **k: {}))
        yield


def _weights_enum() -> Any:
    try:
        import_torchvision()
        from torchvision.models._api import WeightsEnum
    except Exception:  # torchvision is optional and its import runs much foreign code
        return None
    return WeightsEnum


def _order_of_contractions(contract_path: Any, equation: str, *operands: Any, **options: Any) -> Any:
    """Return the order in which an einsum contracts its operands, found at the example's batch: comparing
    symbolic sizes would fix them."""
    shapes = [tuple(getattr(getattr(size, "node", None), "hint", size) for size in x.shape) for x in operands]
    return contract_path(equation, *shapes, shapes=True, **options)


def _assume_checks(tensor: Any, truth: Any) -> bool:
    """Return the truth of a tensor; in a check that raises, the truth that passes it: an export has no values."""
    frame = sys._getframe(1)
    made = frame.f_lasti // 2 - 1  # the instruction before the test made the tensor
    line, end_line, column, end_column = list(frame.f_code.co_positions())[made]
    place = (line, column, end_line, end_column)
    for test, passes in _checks(frame.f_code.co_filename) if None not in place else ():
        part: ast.expr | None = test if _holds(test, place) else None
        while isinstance(part, (ast.UnaryOp, ast.BoolOp)):
            if isinstance(part, ast.BoolOp):
                part = next((value for value in part.values if _holds(value, place)), None)
            elif isinstance(part.op, ast.Not):
                part, passes = part.operand, not passes
            else:
                break
        if part is not None:
            return passes
    return bool(truth(tensor))


@cache
def _checks(file: str) -> list[tuple[ast.expr, bool]]:
    """Return the condition of each `assert`, and of each `if` that only raises, with the truth that passes it."""
    try:
        nodes = list(ast.walk(ast.parse("".join(linecache.getlines(file)))))
    except (SyntaxError, ValueError, RecursionError):
        return []
    raising = (node for node in nodes if isinstance(node, ast.If) and not node.orelse)
    return [
        *((node.test, True) for node in nodes if isinstance(node, ast.Assert)),
        *((node.test, False) for node in raising if isinstance(node.body[-1], ast.Raise)),
    ]


def _holds(node: ast.expr, place: tuple[Any, ...]) -> bool:
    end = (node.end_lineno, node.end_col_offset)
    return (node.lineno, node.col_offset) <= place[:2] and place[2:] <= end


def _refuse_gradients(*args: Any, **options: Any) -> Any:
    raise RuntimeError(NO_GRADIENTS)


@contextmanager
def export_settings() -> Iterator[None]:
    """Disable gradients, warnings and logs, let checks that raise pass, and export attention as separate operators
    instead of the fused fast path."""
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    distribution = torch.distributions.Distribution
    checks = distribution._validate_args
    distribution.set_default_validate_args(False)  # validation reads values, which an export lacks
    silenced = logging.root.manager.disable
    stack = ExitStack()
    truth = partialmethod(_assume_checks, torch.Tensor.__bool__)
    stack.enter_context(patch.object(torch.Tensor, "__bool__", truth))
    stack.enter_context(patch.object(torch.autograd, "grad", _refuse_gradients))
    encoder = torch.nn.modules.transformer  # compares values of a mask to find that it is causal
    stack.enter_context(patch.object(encoder, "_detect_is_causal_mask", lambda mask, hint=None, size=None: bool(hint)))
    if torch.backends.opt_einsum.is_available():
        orders = torch.backends.opt_einsum.get_opt_einsum()
        stack.enter_context(
            patch.object(orders, "contract_path", partial(_order_of_contractions, orders.contract_path))
        )
    logging.disable(logging.CRITICAL)  # torch logs whole graphs before an error that we report in a line
    try:
        with stack, torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(silenced)
        distribution.set_default_validate_args(checks)
        torch.backends.mha.set_fastpath_enabled(fast_path)


def add_class(kind: Any, flatten: Any, rebuild: Any, flatten_with_keys: Any) -> None:
    """Let torch see the tensors in objects of a class, until `remove_classes`."""
    if kind not in pytree.SUPPORTED_NODES:
        name = f"{kind.__module__}.{kind.__qualname__}"
        pytree._private_register_pytree_node(
            kind, flatten, rebuild, serialized_type_name=name, flatten_with_keys_fn=flatten_with_keys
        )
        _classes.append(kind)


def remove_classes() -> None:
    """Let torch forget the classes of `add_class`: the user's program may register them itself."""
    while _classes:
        pytree._deregister_pytree_node(_classes.pop())


def versions() -> dict[str, str]:
    """Return the versions of torch and torchvision."""
    by_package = {"torch": torch.__version__.split("+")[0]}
    with suppress(Exception):
        by_package["torchvision"] = import_torchvision().__version__.split("+")[0]
    return by_package
