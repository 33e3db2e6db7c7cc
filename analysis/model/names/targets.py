"""Models outside the zoo: a Python factory (`net.py:make`, `package.module:make`), an exported program (`net.pt2`) or
an ONNX file (`net.onnx`, or `net.onnx(1x3x224x224)` if it leaves sizes open), a file that a plug-in reads.

A target with its inputs in parentheses is complete; states and caches use this form. This module neither runs nor
imports the named code.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import ClassVar

import msgspec

from analysis.model import request_bounds
from analysis.model.model_errors import ModelSpecError, UnknownModelError
from analysis.model.names import zoo
from hardware.base import file_access, plugins
from hardware.base.errors import hint, nearest, split_list

DTYPES = (
    "float32", "float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool",
    "complex64", "complex128",
)  # fmt: skip
STORED = zoo.CAPTURE_SUFFIX  # a workload as `hwexplorer capture -o` writes it
SHIPPED = ".msgpack.xz"  # a workload of this package: half as large as with gzip
WEIGHTS = ".gguf"  # may be followed by options of the transformer: `net.gguf:decode,kv=4096`
PROGRAM = ".pt2"  # of torch.export; loading one may run code from the file
_OTHERS = (".py", PROGRAM, STORED, WEIGHTS)  # files without a reader of an annex or a plug-in
ONNX = ".onnx"
_MAX_RANK = 12
_MAX_INPUTS = 64
_MAX_SOURCE = 16 << 20
_PIECE = 1 << 20  # bytes of a file that are hashed at once

_NAME = r"[A-Za-z_]\w*"
_CALL = r"(?P<call>\((?:[^()]|\([^()]*\))*\))?"
_FILE = rf"(?a)(?P<path>[^()]*\.py)(?::(?P<factory>{_NAME}(?:\.{_NAME})*))?{_CALL}"
_WEIGHTS = r"(?P<path>[^()]*\.gguf)(?::(?P<options>[\w=,. ]{1,200}))?"
_PROGRAM = rf"(?P<path>[^()]*\{PROGRAM})(?P<call>\(\))?"
_DATA = rf"(?a)(?P<path>[^()]*\.[a-z]\w*){_CALL}"
_MODULE = rf"(?a)(?P<path>{_NAME}(?:\.{_NAME})*):(?P<factory>{_NAME}(?:\.{_NAME})*){_CALL}"
_LIBRARY = rf"(?ai)(?P<path>{'|'.join(zoo.library_names())})(?:\.models)?:(?P<factory>[\w.-]+){_CALL}"


class Input(msgspec.Struct, frozen=True):
    """One example input, a tensor. For a number (`rate=16000`) the size is its value."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    name: str = ""

    def __str__(self) -> str:
        sizes = f"{self.name}=" * bool(self.name) + "x".join(str(size) for size in self.shape)
        return sizes if self.dtype == "float32" else f"{sizes}:{self.dtype}"


def image(size: int) -> Input:
    """Return the input of a model of square images."""
    return Input((1, 3, size, size))


class Target(msgspec.Struct, frozen=True):
    """A model of the user's. `batch_dim` is the dimension of the inputs that is the batch, None without one.
    `called` is True if the inputs were part of the text, so that the target is complete."""

    path: str
    factory: str = ""
    inputs: tuple[Input, ...] = ()
    batch_dim: int | None = 0
    called: bool = True
    image_size: ClassVar[None] = None  # part of the inputs
    phases: ClassVar[dict[str, str]] = {}
    load: ClassVar[None] = None
    load_and_lengths: ClassVar[str] = ""

    @property
    def runs_code(self) -> bool:
        """True if opening it runs the user's code; files of data are read."""
        return not self.path.endswith((STORED, WEIGHTS)) and bool(self.factory or not has_reader(self.path))

    @property
    def is_module(self) -> bool:
        """True if it is named as a Python module; the text may also be the name of another model."""
        return self.runs_code and not self.path.endswith((".py", PROGRAM))

    @property
    def is_program(self) -> bool:
        """True for an exported program, which includes its inputs."""
        return self.path.endswith(PROGRAM)

    @property
    def is_library(self) -> bool:
        """True for a model of a library, by the library's name for it."""
        return self.path in zoo.library_names()

    def at_image_size(self, size: int) -> "Target | None":
        """Return a library's model of images with another size of its input. None for any other model."""
        listed = zoo.libraries().get(self.path, {}).get(self.factory, {}).get("inputs", {}).values()
        if not self.is_library or self.inputs or any(shape[:2] != [1, 3] for shape in listed):
            return None
        is_usual = [1, 3, size, size] in listed
        return self if is_usual else msgspec.structs.replace(self, inputs=(image(size),), called=True)

    @property
    def is_captured(self) -> bool:
        """True if its workload comes from a capture rather than from a data file."""
        return self.runs_code

    @property
    def label(self) -> str:
        """The short name for titles: `net.py:make`."""
        name, made = (part.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1] for part in (self.path, self.factory))
        return f"{name}:{made}" if made else name

    def __str__(self) -> str:
        words = [str(item) for item in self.inputs]
        if self.is_program:
            return f"{self.path}()"
        if not self.runs_code:
            return f"{self.path}({','.join(words)})" if words else self.path + f":{self.factory}" * bool(self.factory)
        if self.batch_dim != 0:
            words.append(f"batch={'none' if self.batch_dim is None else self.batch_dim}")
        return f"{self.path}:{self.factory}({','.join(words)})"

    @property
    def words(self) -> tuple[str, ...]:
        """The words after a verb of the command line that name this target; inputs become `--input` options."""
        if not self.runs_code or self.is_program:
            return (str(self).removesuffix("()"),)
        batch = () if self.batch_dim == 0 else ("--batch-dim", str(self.batch_dim).lower())
        return (f"{self.path}:{self.factory}", *(w for item in self.inputs for w in ("--input", str(item))), *batch)


def parse(text: str) -> Target | None:
    """Return the target that a text names, or None for any other model. Raises `ModelSpecError`."""
    text = text.strip()
    if not {".", ":"} & {*text} or text.lower().startswith("hf:"):
        return None
    if text.endswith(STORED):
        return Target(text)
    if match := re.fullmatch(_PROGRAM, text):
        return Target(match["path"], called=match["call"] is not None)
    if match := re.fullmatch(_WEIGHTS, text):
        return Target(match["path"], match["options"] or "")
    if (match := re.fullmatch(_DATA, text)) and has_reader(match["path"]):
        inputs, batch_dim = _arguments(match["call"])
        if batch_dim != 0:
            raise ModelSpecError(f"{match['path'][:60]} already states which dimension is the batch")
        return Target(match["path"], inputs=inputs, called=match["call"] is not None)
    match = next(filter(None, (re.fullmatch(form, text) for form in (_FILE, _LIBRARY, _MODULE))), None)
    if match is None:
        return None
    if match["factory"] is None:
        raise ModelSpecError(_no_factory(match["path"]))
    inputs, batch_dim = _arguments(match["call"])
    path, factory = match["path"], match["factory"]
    if match.re.pattern == _LIBRARY:
        path, factory = zoo.of_library(path, factory)
    return Target(path, factory, inputs, batch_dim, match["call"] is not None)


def has_reader(path: str) -> bool:
    """Return True if the reader of an annex or a plug-in opens a file, by its suffix."""
    suffix = re.search(r"\.[a-z]\w*$", path)
    if suffix is None or path.endswith(_OTHERS):
        return False
    return suffix[0] == ONNX or suffix[0] in plugins.entry_points("readers")


def complete(target: Target, inputs: Sequence[str], batch_dim: str | None) -> Target:
    """Return a target with the given inputs and batch dimension. Raises a `ModelError`, also for a missing file."""
    if inputs or batch_dim is not None:
        takes_inputs = (target.runs_code and not target.is_program) or has_reader(target.path)
        if target.called or not takes_inputs or (batch_dim is not None and not target.runs_code):
            raise ModelSpecError(f"{target.path[:60]} already states its inputs: remove --input and --batch-dim")
        dimension = parse_batch_dim(batch_dim) if batch_dim is not None else 0
        shapes = tuple(map(parse_input, inputs))
        target = msgspec.structs.replace(target, inputs=shapes, batch_dim=dimension, called=True)
    source(target)
    return target


def _arguments(call: str | None) -> tuple[tuple[Input, ...], int | None]:
    inputs: list[Input] = []
    batch_dim: int | None = 0
    for word in split_list((call or "")[1:-1]):
        if word.startswith("batch="):
            batch_dim = parse_batch_dim(word.removeprefix("batch="))
        else:
            inputs.append(parse_input(word))
    if len(inputs) > _MAX_INPUTS:
        raise ModelSpecError(f"{len(inputs)} inputs are too many (at most {_MAX_INPUTS})")
    return tuple(inputs), batch_dim


def parse_input(text: str) -> Input:
    """Parse `1x3x224x224`, `1x128:int64`, `mask=1x128:int64`, `rate=16000`. Raises `ModelSpecError`."""
    text = text.strip()
    if {*"[({"} & {*text}:
        raise ModelSpecError(
            f"input {text[:60]!r} is not a tensor: the factory can return lists, e.g. return model, [x, y]"
        )
    name, equals, rest = text.rpartition("=")
    if equals and not re.fullmatch(r"[\w.:/-]{1,60}", name):
        raise ModelSpecError(f"input {text[:60]!r}: {name[:40]!r} is not a valid name of an input")
    sizes, colon, dtype = rest.partition(":")
    dtype = dtype.removeprefix("torch.") if colon else "float32"
    if dtype not in DTYPES:
        right = hint(dtype, DTYPES, f"allowed: {', '.join(DTYPES)}")
        raise ModelSpecError(f"input {text[:60]!r}: no dtype {dtype[:30]!r}; {right}")
    words = sizes.lower().split("x")
    if not all(re.fullmatch(r"[0-9]{1,9}", word) and 1 <= int(word) <= request_bounds.PARAMETER for word in words):
        raise ModelSpecError(
            f"input {text[:60]!r} is not a shape; expected sizes of 1 or more, e.g. 1x3x224x224 or 1x128:int64"
        )
    if len(words) > _MAX_RANK:
        raise ModelSpecError(f"input {text[:60]!r} has {len(words)} dimensions (at most {_MAX_RANK})")
    return Input(tuple(int(word) for word in words), dtype, name)


def parse_batch_dim(text: str) -> int | None:
    """Return the dimension that is the batch, None for `none`. Raises `ModelSpecError`."""
    if text == "none":
        return None
    if not re.fullmatch(r"[0-9]{1,2}", text) or int(text) >= _MAX_RANK:
        raise ModelSpecError(f"batch dimension {text[:20]!r} is neither a number from 0 to {_MAX_RANK - 1} nor none")
    return int(text)


def shipped_at(target: Target) -> Path:
    """Return the path of the shipped capture of a library's model, which need not exist."""
    size = f"-{target.inputs[0].shape[-1]}" if target.inputs else ""
    is_plain = target.is_library and target.batch_dim == 0 and (not size or target.inputs == (image(int(size[1:])),))
    name = f"{target.path}-{target.factory}{size}{SHIPPED}" if is_plain else ""
    folders = (Path(__file__).parents[1] / "captures", *_other_captures())
    return next((path for folder in folders if (path := folder / name).is_file()), folders[0] / name)


@cache
def _other_captures() -> tuple[Path, ...]:
    """Return the folder of hwexplorer-captures, whose data have licences of their own, if it is installed."""
    from importlib.util import find_spec  # not needed for other models

    found = find_spec("hwexplorer_captures")
    return tuple(map(Path, found.submodule_search_locations or ())) if found else ()


# --- the file behind it -----------------------------------------------------------------------------------


def source(target: Target) -> Path:
    """Return the file that defines a target, without importing it. Raises `UnknownModelError` or RequestError."""
    if target.path.endswith(_OTHERS) or not target.runs_code:
        try:
            path = Path(target.path).expanduser()
            if path.is_file():
                return path.absolute()
            problem = _no_file(path)
        except (OSError, ValueError, RuntimeError) as error:  # a name too long, a NUL, no such home
            problem = f"no file {target.path[:60]!r} ({getattr(error, 'strerror', None) or error})"
        raise UnknownModelError(problem)
    if (shipped := shipped_at(target)).is_file():
        return shipped
    if target.path in zoo.library_names("captured"):
        models = zoo.libraries()[target.path]
        known = models.get(target.factory, {}).get("source") or hint(target.factory, models, ", ".join(models))
        raise UnknownModelError(f"of {target.path} only the captures that ship open: {known}{_missing_captures()}")
    relative = Path(*target.path.split("."))
    for folder in (Path.cwd(), *(Path(entry) for entry in sys.path if entry)):
        for path in (folder / relative.with_suffix(".py"), folder / relative / "__init__.py"):
            if path.is_file():
                return path.absolute()
    if target.is_library:
        raise UnknownModelError(f"{target.path} is not installed: pip install {target.path}{_missing_captures()}")
    from analysis.model.transformer import transformer_request

    near = [
        *nearest(target.path, [*zoo.names(), *transformer_request.preset_names(), *zoo.other_names()]),
        "a file, as net.py:make",
    ]
    raise UnknownModelError(f"no module {target.path} here or on the Python path; did you mean {' or '.join(near)}?")


def _missing_captures() -> str:
    return "" if _other_captures() else "; captures of YOLO models: pip install hwexplorer-captures"


def mark(pieces: Iterable[bytes]) -> str:
    """Return a hash of the bytes of all pieces: the first 16 hexadecimal digits of their SHA-256."""
    import hashlib  # 8 ms that shipped models do not need

    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()[:16]


def fingerprint(path: Path) -> str:
    """Return a hash of a file's contents. Raises `UnknownModelError` if it cannot be read."""
    try:
        with file_access.open_regular(path) as file:
            return mark(iter(lambda: file.read(_PIECE) or b"", b""))
    except OSError as error:
        raise UnknownModelError(f"cannot read {path}: {error.strerror}") from None


def _no_file(path: Path) -> str:
    if path.is_dir():
        return f"{path} is a folder, not a file"
    folder = path.parent
    if not folder.is_dir():
        return f"no folder {folder}"
    siblings = sorted(entry.name for entry in folder.iterdir() if entry.suffix == path.suffix)[:1000]
    right = hint(path.name, siblings)
    return f"no file {path}" + (f"; {right}" if right else "")


def _no_factory(path: str) -> str:
    file = source(Target(path, "x"))
    names = defined(file)
    example = names[0] if names else "make"
    hint_text = f" (it defines {', '.join(names[:5])})" if names else ""
    return f"name the factory after the file, e.g. {path}:{example}{hint_text}"


def defined(file: Path) -> list[str]:
    """Return the classes and public functions of a Python file, classes first; [] if it cannot be read."""
    import ast  # only for an error message

    try:
        body = ast.parse(file_access.read(file, _MAX_SOURCE)).body
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    classes = [node.name for node in body if isinstance(node, ast.ClassDef)]
    return [*classes, *(node.name for node in body if isinstance(node, ast.FunctionDef) and node.name[0] != "_")]
