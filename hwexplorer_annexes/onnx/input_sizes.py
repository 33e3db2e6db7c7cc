"""Inputs of an ONNX model: its batch, and the sizes that the file leaves open."""

from collections.abc import Sequence

from hwexplorer.extend import Input
from hwexplorer_annexes.onnx.graph_parts import Poly, UnreadableError, poly
from hwexplorer_annexes.onnx.onnx_file import ValueInfo
from hwexplorer_annexes.onnx.onnx_op import Shape


class OpenSizeError(UnreadableError):
    """The file leaves sizes open that the user has not given."""


class TimeFirstError(UnreadableError):
    """Dimension 0 was taken as the batch but is the time of a recurrent operator."""


def shapes_of(
    declared: Sequence[ValueInfo], inputs: Sequence[Input], batch: Poly, batch_axis: int
) -> tuple[dict[str, Poly], list[Shape]]:
    """Return the open sizes by name, and the shape of each input. Named `inputs` set the input of that name, others in
    order the remaining inputs that are not scalars. Raises UnreadableError."""
    unknown = {item.name for item in inputs if item.name} - {info.name for info in declared}
    if unknown:
        raise UnreadableError(
            f"it has no input {min(unknown)[:40]!r}: {', '.join(info.name[:40] for info in declared[:8])}"
        )
    named = {item.name: item for item in inputs if item.name}
    unnamed = [item for item in inputs if not item.name]
    places = [info for info in declared if info.shape != () and info.name not in named]
    if len(unnamed) > len(places):
        raise UnreadableError(f"{len(unnamed)} inputs are given, it has {len(places)}")
    chosen = named | {info.name: item for info, item in zip(places, unnamed, strict=False)}
    symbols = dict.fromkeys(batch_names(declared, batch_axis), batch)
    pairs = [(info, chosen.get(info.name) if info.shape != () else None) for info in declared]
    for info, given in pairs:
        for size, to in zip(info.shape or (), given.shape if given else (), strict=False):
            if isinstance(size, str) and symbols.setdefault(size, poly(to)) not in (poly(to), batch):
                raise UnreadableError(
                    f"{info.name[:40]!r} sets {size[:24]!r} to {to}, but it is {symbols[size]} elsewhere"
                )
    return symbols, [_shape(info, given, symbols, batch, batch_axis) for info, given in pairs]


def value_of(info: ValueInfo, inputs: Sequence[Input]) -> int | None:
    """Return the value of a scalar input that was given as `name=value`, else None."""
    given = next((item.shape for item in inputs if item.name == info.name and info.shape == ()), None)
    return given[0] if given else None


def batch_names(inputs: Sequence[ValueInfo], batch_axis: int) -> set[str]:
    """Return the names of open sizes that are the batch: those that contain `batch`, else those named b, n or bs, else
    those at the batch axis."""
    shapes = [info.shape or () for info in inputs]
    names = {size for shape in shapes for size in shape if isinstance(size, str)}
    called = {name for name in names if "batch" in name.lower()}
    lettered = {name for name in names if name.lower() in ("b", "n", "bs")}
    at_axis = {size for shape in shapes for size in shape[batch_axis : batch_axis + 1] if isinstance(size, str)}
    return called or lettered or at_axis


def _shape(info: ValueInfo, given: Input | None, symbols: dict[str, Poly], batch: Poly, batch_axis: int) -> Shape:
    declared = info.shape
    if declared is None:
        if given is None:
            raise OpenSizeError(f"the file does not state the shape of {info.name[:40]!r}: give --input 1x3x224x224")
        declared = (None,) * len(given.shape)
    if given is not None:
        known = [own if isinstance(size, int) else size for size, own in zip(declared, given.shape, strict=False)]
        if len(declared) != len(given.shape) or known != list(declared):
            raise UnreadableError(f"{info.name[:40]!r} is {format_shape(declared)}, not {given}")
    shape: list[Poly] = []
    for place, size in enumerate(declared):
        if isinstance(size, int):
            shape.append(poly(size))
        elif isinstance(size, str) and size in symbols:
            shape.append(symbols[size])
        elif size is None and place == batch_axis:
            shape.append(batch)
        elif given is not None:
            shape.append(poly(given.shape[place]))
        else:
            raise OpenSizeError(
                f"{info.name[:40]!r} is {format_shape(declared)}: give its sizes, e.g. {example_option(declared)}"
            )
    return tuple(shape)


def format_shape(shape: Sequence[int | str | None]) -> str:
    """Return a declared shape as text, `?` for an open size."""
    return "x".join("?" if size is None else str(size)[:24] for size in shape) or "a number"


def example_option(shape: Sequence[int | str | None]) -> str:
    """Return an example of the option `--input` that gives the open sizes."""
    usual = {4: (1, 3, 224, 224), 5: (1, 3, 16, 112, 112)}.get(len(shape), (1, *[128] * 16))
    return "--input " + "x".join(
        str(size if isinstance(size, int) else usual[place]) for place, size in enumerate(shape)
    )
