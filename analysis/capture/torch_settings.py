"""Set torch and torchvision for an export, and describe an error in the model's code in one line for the user.

The line names the place in the source, the cause and the remedy.
"""

import ast
import linecache
import logging
import re
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial, partialmethod
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch.nn.attention import flex_attention
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from hardware.known_architectures import TORCH_HOST

_OURS = str(Path(__file__).resolve().parents[1])
user_folders: list[str] = []  # folders of the user's model: an error is located in these files if possible
_DETAIL = 220
NO_GRADIENTS = "gradients inside forward cannot be captured; capture the module whose gradient it takes"
SPARSE = "sparse tensors cannot be captured; give a dense one, or its indices and values with index_add"
# A pattern in the message or source line of an error -> what to do about it.
_ADVICE = {
    r"\.numpy\(\)": "NumPy cannot be captured; stay with torch functions",
    "BadZipFile|File is not a zip file": "the file is no program that torch.export.save wrote, or is damaged",
    "PackedSequence": "a packed sequence cannot be captured; give its module the padded tensor",
    "Tensor that doesn't have storage|Sparse C\\w+ tensors do not have": SPARSE,
    "nested_tensor|torch\\.jagged|NestedTensor": "nested tensors cannot be captured; give a padded tensor and its mask",
    rf"not require grad|\b(jacrev|jacfwd|hessian|vjp|jvp|grad|backward)\(|{NO_GRADIENTS}": NO_GRADIENTS,
}
_TEXT_MAX, _LINE_MAX = 20_000, 500  # limits on a message: patterns below take time quadratic in the line length


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, the innermost last."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def _message_of(error: BaseException) -> str:
    """Return the message of an error, cut to _TEXT_MAX characters in all and _LINE_MAX per line."""
    return "\n".join(line[:_LINE_MAX] for line in str(error)[:_TEXT_MAX].splitlines())


def is_memory(error: BaseException) -> bool:
    """Return True if memory ran out."""
    return any(isinstance(e, MemoryError) or "can't allocate memory" in _message_of(e) for e in chain(error))


def is_exit(error: BaseException) -> bool:
    """Return True if the model's code ended the process."""
    return any(isinstance(e, SystemExit) for e in chain(error))


def is_data_dependent(error: BaseException) -> bool:
    """Return True if a shape or branch depends on values of a tensor."""
    names = ("GuardOnDataDependentSymNode", "DataDependentOutputException", "DynamicOutputShapeException")
    words = ("data-dependent", "Could not guard on", "depends on the data")
    return any(type(e).__name__ in names or any(word in _message_of(e) for word in words) for e in chain(error))


def is_of_weights(error: BaseException) -> bool:
    """Return True if the error may come from weights that are missing."""
    words = ("meta", "FakeTensor", "fake tensor", "storage", "unsupported scalarType")  # the last: autocast on meta
    return any(
        isinstance(e, NotImplementedError) or any(word in _message_of(e) for word in words) for e in chain(error)
    )


def is_final(error: BaseException) -> bool:
    """Return True if every other way of capturing would fail for the same reason."""
    return is_memory(error) or is_exit(error) or is_data_dependent(error) or isinstance(error, KeyboardInterrupt)


def explain(error: BaseException, during: str) -> str:
    """Return one line for the user: where it failed, why, and what to do."""
    root = _informative_error(error)
    at = f"{line_of(error) or during}: "
    if is_exit(error):
        leaving = next(e for e in chain(error) if isinstance(e, SystemExit))
        code = leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else 1
        return f"{at}the model's code called sys.exit({code})"
    if is_memory(error):
        return f"{at}it asked for more memory than a capture may take (--memory-limit raises the limit)"
    if is_data_dependent(error):
        return at + _data_dependent(error)
    tried = f"{_message_of(root)}\n{_source_line(error)}"
    if advice := next((advice for pattern, advice in _ADVICE.items() if re.search(pattern, tried)), None):
        return f"{at}{advice}"
    if (missing := _missing_kernel(error)) is not None:
        return f"{at}the operator {missing} has no shape rule; give it one with torch.library.register_fake"
    if isinstance(root, SyntaxError):
        return f"{Path(root.filename or '').name}:{root.lineno}: SyntaxError: {root.msg}"
    if isinstance(root, ImportError) and "relative import" in _message_of(root):
        return f"{at}{root}; name the package instead, as package.module:factory"
    return at + reason(root)


def reason(error: BaseException) -> str:
    """Return the error in one short line, without its place and remedy."""
    root = _informative_error(error)
    lines = [line.strip() for line in _message_of(root).splitlines() if line.strip()]
    text = lines[0] if lines else ""
    if text.startswith("Constraints violated") or "Not all values of" in _message_of(root):
        text = next((line.removeprefix("- ") for line in lines if line.startswith("- ")), text)
    if match := re.search(r"specialized it to be a constant \((\d+)\)", text):
        return f"its code works for {match[1]} only"
    text = re.sub(r"L\['(\w+)'\]\.size\(\)", r"\1.shape", text.partition("Specializations unexpectedly")[0])
    if match := re.search(r"satisfy the generated guard (.*?)\.?$", text):
        return f"its code requires {match[1][:_DETAIL]}"
    text = re.sub(r" ?For more information.*", "", text)
    name = type(root).__name__
    if name == "ExportError":  # our own errors are complete sentences
        return text[:_DETAIL]
    return f"{name}: {text[:_DETAIL]}" if text else name


def class_in_results(error: BaseException) -> Any:
    """Return the class of a result that torch does not know, None if that is not the failure."""
    match = re.search(r"Found <class '([\w.]+)\.(\w+)'> in output", _message_of(error))
    return getattr(sys.modules.get(match[1]), match[2], None) if match else None


def largest_batch(error: BaseException) -> int:
    """Return the largest batch for which a model's code takes the captured path; 0 if the batch is not the problem."""
    limits = re.findall(r"\.shape\[\d+\] <= (\d+)", reason(error)) if "requires" in reason(error) else []
    return min(map(int, limits), default=0)


def _informative_error(error: BaseException) -> BaseException:
    """Return the first error of the chain that has a message: wrappers only point at a cause."""
    return next((link for link in chain(error) if _message_of(link).strip() or link.__cause__ is None), error)


def _data_dependent(error: BaseException) -> str:
    source = _source_line(error)
    text = " ".join(_message_of(e) for e in chain(error))
    if "item()" in text or "item()" in source or "DataDependentOutput" in text or "tolist" in source:
        return "a value is read out of a tensor (item, int, float, tolist), but a capture has none; keep it a tensor"
    if re.match(r"(if|elif|while|assert)\b", source) or " if " in source or "bool" in text:
        return (
            "the branch depends on values of a tensor, and a capture has none; use torch.where or torch.cond, "
            "or give the factory a fixed choice"
        )
    return (
        "a size depends on values of a tensor (nonzero, masks, unique); use a fixed size, as topk or a dense mask, "
        "for experts a grouped product"
    )


def _missing_kernel(error: BaseException) -> str | None:
    for link in chain(error):
        if type(link).__name__ in ("UnsupportedOperatorException", "UnsupportedFakeTensorException"):
            match = re.search(r"\w+(?:\.|::)\w+(?:\.\w+)?", _message_of(link))
            return match[0] if match else "?"
        text = _message_of(link)
        pattern = r"(\w+(?:::|\.)\w+)[^\n]*(?:no fake impl|no meta kernel|Meta' backend)"
        if match := re.search(r"Could not run '(\w+::\w+)" if "Could not run" in text else pattern, text):
            return match[1]
    return None


# --- which line -------------------------------------------------------------------------------------------


def line_of(error: BaseException) -> str:
    """Return the innermost line of the user's code that ran, as `net.py:12 in forward`, or ''."""
    frame = _frame(error)
    return f"{Path(frame[0]).name}:{frame[1]} in {frame[2]}" if frame else ""


def _source_line(error: BaseException) -> str:
    frame = _frame(error)
    return linecache.getline(frame[0], frame[1]).strip() if frame else ""


def _frame(error: BaseException) -> tuple[str, int, str] | None:
    frames = [frame for link in chain(error) for frame in _frames(link)]
    mine = [frame for frame in frames if any(frame[0].startswith(folder) for folder in user_folders)]
    mine = [frame for frame in mine if "site-packages" not in frame[0]] or mine
    return mine[-1] if mine else (frames[-1] if frames else None)


def _frames(error: BaseException) -> list[tuple[str, int, str]]:
    """Return (file, line, function) of the frames outside this product, torch and Python, outermost first."""
    told = [(f.filename, f.lineno or 0, f.name) for f in traceback.extract_tb(error.__traceback__)]
    if isinstance(stack := getattr(error, "user_stack", None), traceback.StackSummary):
        told += [(f.filename, f.lineno or 0, f.name) for f in stack]
    if isinstance(where := getattr(error, "where", None), str):  # the stack that an ExportError carries
        lines = re.findall(r'File "([^"]+)", line (\d+), in (\S+)', where)
        told += [(name, int(line), function) for name, line, function in lines]
    return [frame for frame in told if not _is_foreign(frame[0])]


def _is_foreign(filename: str) -> bool:
    if filename.startswith(("<", _OURS)):
        return True
    parts = Path(filename).parts
    if "site-packages" in parts or "dist-packages" in parts:
        after = parts[max(i for i, part in enumerate(parts) if part.endswith("-packages")) + 1 :]
        return bool(after) and after[0] in ("torch", "torchgen", "sympy", "numpy", "msgspec")
    return any(part.startswith("python3") and parts[i - 1] == "lib" for i, part in enumerate(parts)) or any(
        part == "lib-dynload" for part in parts
    )


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
    real, because some constructors read their values (RegNet), and so are the block masks of flex_attention."""

    is_paused = False

    _FACTORIES = frozenset(
        (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn, torch.empty_strided)
    )

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in self._FACTORIES and kwargs.get("device") is None and not self.is_paused:
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
        mode = stack.enter_context(_AllocateOnMeta())
        stack.enter_context(patch.object(flex_attention, "create_block_mask", partial(_make_mask, mode)))
        stack.enter_context(patch.object(torch.nn.Module, "load_state_dict", lambda *a, **k: None))
        weights_enum = _weights_enum()
        if weights_enum is not None:
            stack.enter_context(patch.object(weights_enum, "get_state_dict", lambda *a, **k: {}))
        yield


def _make_mask(mode: _AllocateOnMeta, *args: Any, make: Any = flex_attention.create_block_mask, **options: Any) -> Any:
    """Return a block mask with values, on the host."""
    with patch.object(mode, "is_paused", True):
        return make(*args, **options | {"device": TORCH_HOST})


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
