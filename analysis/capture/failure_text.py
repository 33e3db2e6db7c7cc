"""Describe an error in the model's code in one line for the user: its source line, the cause and the remedy."""

import linecache
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_OURS = str(Path(__file__).resolve().parents[1])
_folders: list[str] = []  # folders of the user's model: an error is located in these files if possible
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


def add_user_folder(folder: Path) -> None:
    """Treat lines of files in this folder as the user's."""
    _folders.append(str(folder))


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
    return "a size depends on values of a tensor (nonzero, masks, unique); use a fixed size, as topk or a dense mask"


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
    mine = [frame for frame in frames if any(frame[0].startswith(folder) for folder in _folders)]
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
