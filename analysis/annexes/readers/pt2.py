"""An exported program (`.pt2`) as a workload. Nothing of the file is executed and torch is not needed.

`torch.export.load` unpickles sample inputs and evaluates shape strings, so it runs whatever a file says. Here
the archive's `models/model.json` is read as data; its shape expressions go through a whitelist.
"""

from __future__ import annotations

import json
import lzma
import zipfile
import zlib
from pathlib import Path
from typing import Any

from analysis.annexes.readers.size_expressions import Layout, expression, is_viewable, layout, stride, symbols_in, whole
from analysis.model.ir.batch_limits import fixed_note
from analysis.model.ir.operator_graph import (
    Graph,
    GraphNode,
    Meta,
    Ref,
    Scope,
    Source,
    base_name,
    references,
)
from analysis.model.ir.poly import Poly, SizeError, dim, poly
from analysis.model.ir.workload import BUFFER, INPUT, WEIGHT, InputSpec, Workload
from analysis.model.lowering.graph_lowering import lower_graph
from analysis.model.model_errors import UnreadableError
from analysis.model.reading_budget import Budget, TooMuchError
from hardware import file_access

SCHEMA_MAJOR, SCHEMA_MINOR = 8, 20  # what was tried; a newer minor version adds fields only
_MAX_JSON = 256 << 20
_MAX_RANK = 64
_REPORT_EVERY = 500  # calls
# Steps of the budget for one call, one value of JSON and one letter of a shape expression.
_NODE_STEPS, _VALUE_STEPS, _LETTER_STEPS = 150, 3, 10

_DTYPES = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64",
    9: "complex32", 10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16",
    29: "float8_e4m3fn", 30: "float8_e5m2", 31: "float8_e4m3fnuz", 32: "float8_e5m2fnuz", 33: "float8_e8m0fnu",
    34: "uint32", 35: "uint64",
}  # fmt: skip

# Calls whose result is a window on their argument.
_VIEW_NAMES = (
    "view view_as expand expand_as broadcast_to permute transpose t swapaxes swapdims movedim moveaxis unsqueeze"
    " squeeze select slice narrow split split_with_sizes chunk tensor_split hsplit vsplit dsplit unsafe_split"
    " unsafe_split_with_sizes unsafe_chunk unbind diagonal unfold as_strided detach alias unflatten numpy_T mT mH T"
    " adjoint real imag view_as_real view_as_complex _reshape_alias _unsafe_view lift_fresh conj resolve_conj"
    " resolve_neg positive broadcast_tensors"
)
_VIEWS = frozenset(_VIEW_NAMES.split())
_RESHAPES = frozenset(("reshape", "reshape_as", "flatten", "ravel"))
_SAME_IF_ALREADY = frozenset(("contiguous", "to", "type_as"))


def load(path: Path, budget: Budget | None = None) -> Workload:
    """Return the workload of an exported program. Raises an `UnreadableError` or a `TooMuchError` with one line."""
    budget = budget or Budget()
    try:
        program, ties = _read(path, budget)
        major, minor = (int(program["schema_version"][key]) for key in ("major", "minor"))
        if major != SCHEMA_MAJOR:
            written = f"{str(major)[:8]}.{str(minor)[:8]}"
            raise UnreadableError(f"schema {written} is not known here; known: {SCHEMA_MAJOR}.x (torch 2.13 writes it)")
        graph = _ProgramReader(program, ties, budget).graph()
        budget.report("lower", 0.0)
        return lower_graph(graph, path.name, "custom", str(path))
    except (UnreadableError, TooMuchError) as error:
        raise type(error)(f"{path.name}: {error}") from None
    except SizeError as error:
        raise UnreadableError(f"{path.name}: {error}") from None
    except (KeyError, TypeError, IndexError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        raise UnreadableError(f"{path.name}: its graph is malformed ({type(error).__name__})") from None


def _read(path: Path, budget: Budget) -> tuple[Any, dict[str, str]]:
    """Return the program's JSON, and which file holds each weight (two names of one file are one tensor)."""
    try:
        with file_access.open_regular(path) as file, zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            programs = [name for name in names if name.endswith(".json") and "/models/" in f"/{name}"]
            if not programs:
                older = any(name.endswith("serialized_exported_program.json") for name in names)
                raise UnreadableError(
                    "saved by an older torch; load it there and save it with torch 2.9 or newer"
                    if older
                    else "no exported program in it (torch.export.save writes one)"
                )
            if len(programs) > 1:
                raise UnreadableError(f"{len(programs)} models in it; one is expected")
            program = _entry(archive, programs[0], budget)
            weights = [name for name in names if name.endswith("_weights_config.json")]
            config = _entry(archive, weights[0], budget) if len(weights) == 1 else {}
    except (OSError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError) as error:
        if isinstance(error, (RecursionError, FileNotFoundError)):
            raise UnreadableError("no exported program in it") from None
        raise UnreadableError("cannot be read as an exported program (a damaged or foreign archive)") from None
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise UnreadableError("its graph is no JSON text") from None
    return program, {name: str(item["path_name"]) for name, item in config.get("config", {}).items()}


def _entry(archive: zipfile.ZipFile, name: str, budget: Budget) -> Any:
    """Parse one JSON file of an archive, whatever size it claims: a few bytes can unpack to gigabytes of objects."""
    with archive.open(name) as file:
        data = file.read(_MAX_JSON + 1)
    if len(data) > _MAX_JSON:
        raise UnreadableError(f"its graph is larger than {_MAX_JSON >> 20} MiB")
    budget.spend(_VALUE_STEPS * sum(map(data.count, (b",", b"[", b"{"))))
    return json.loads(data)


class _ProgramReader:
    """The JSON of one program, walked into the neutral graph."""

    def __init__(self, program: Any, ties: dict[str, str], budget: Budget) -> None:
        module = program["graph_module"]
        self.program, self.ties, self.budget = program, ties, budget
        self.body: Any = module["graph"]
        self.specs: Any = module["signature"]["input_specs"]
        self.notes: list[str] = []
        self.symbols = self._symbols()
        self.layouts: dict[str, Layout] = {}
        self.metas: dict[str, Meta] = {}

    def graph(self) -> Graph:
        """Return the operator graph of the program."""
        sources, inputs = self._sources()
        calls = self.body["nodes"]
        nodes: list[GraphNode] = []
        for index, raw in enumerate(calls):
            if index % _REPORT_EVERY == 0:
                self.budget.report("shapes", index / len(calls))
            nodes += self._nodes(index, raw)
        known = {source.name for source in sources} | {node.name for node in nodes}
        outputs = [ref.name for raw in self.body["outputs"] for ref in references(self._value(raw))]
        weights = {source.label: source.meta.numel.constant() for source in sources if source.role == WEIGHT}
        if not any("batch" in item.shape for item in inputs) and inputs:
            leading = {item.shape[0] for item in inputs if item.shape}
            batch = leading.pop() if len(leading) == 1 else 1
            self.notes.append(fixed_note(int(batch), "the program was exported for inputs of fixed size"))
        return Graph(
            sources=tuple(sources),
            nodes=tuple(nodes),
            outputs=tuple(name for name in outputs if name in known),
            parameters=sum(weights.values()),
            inputs=tuple(inputs),
            notes=tuple(self.notes),
            versions={"torch": str(self.program.get("torch_version", "")).split("+")[0][:40]},
        )

    def _symbols(self) -> dict[str, Poly]:
        """Return the sizes of symbols: dimension 0 of an input is the batch, others are fixed at their example."""
        batch: str | None = None
        sizes: dict[str, Poly] = {}
        arguments = [spec["user_input"]["arg"] for spec in self.specs if "user_input" in spec]
        for name in [argument["as_tensor"]["name"] for argument in arguments if "as_tensor" in argument]:
            for position, size in enumerate(self.body["tensor_values"][name]["sizes"]):
                if "as_expr" not in size:
                    continue
                for symbol in symbols_in(size["as_expr"]["expr_str"]):
                    if position == 0 and batch is None:
                        batch, sizes[symbol] = symbol, dim("batch")
                    elif symbol not in sizes:
                        sizes[symbol] = whole((size["as_expr"].get("hint") or {}).get("as_int"))
        fixed = [f"{name[:20]} = {size}" for name, size in sizes.items() if name != batch]
        if fixed:
            self.notes.append(f"sizes other than the batch are those of the example: {', '.join(fixed[:8])}")
        return sizes

    def _sources(self) -> tuple[list[Source], list[InputSpec]]:
        sources: list[Source] = []
        inputs: list[InputSpec] = []
        first: dict[str, str] = {}  # file of a weight -> the first name it has
        for spec in self.specs:
            ((kind, body),) = spec.items()
            if kind == "user_input":
                if "as_tensor" not in body["arg"]:
                    continue
                name = str(body["arg"]["as_tensor"]["name"])
                meta = self._new(name)
                shape = tuple(size.label for size in meta.shape)
                inputs.append(InputSpec(name, meta.dtype, shape))
                sources.append(Source(name, name, INPUT, meta))
            elif kind in ("parameter", "buffer", "tensor_constant"):
                name, label = str(body["arg"]["name"]), str(body[f"{kind}_name"])
                label = first.setdefault(self.ties.get(label, label), label)
                sources.append(Source(name, label, WEIGHT if kind == "parameter" else BUFFER, self._new(name)))
        return sources, inputs

    def _size(self, raw: Any) -> Poly:
        if "as_int" in raw:
            return whole(raw["as_int"])
        return expression(self._text(raw), self.symbols)

    def _text(self, raw: Any) -> str:
        text = str(raw["as_expr"]["expr_str"])
        self.budget.spend(_LETTER_STEPS * len(text))
        return text

    def _stride(self, raw: Any) -> int:
        if "as_int" in raw:
            return whole(raw["as_int"]).constant()
        return stride(self._text(raw), self.symbols)

    def _new(self, name: str, storage: int | None = None) -> Meta:
        raw = self.body["tensor_values"][name]
        if len(raw["sizes"]) > _MAX_RANK:
            raise SizeError(f"a tensor has {len(raw['sizes'])} dimensions")
        sizes = tuple(self._size(size) for size in raw["sizes"])
        self.layouts[name] = self._layout(name)
        meta = Meta(sizes, _DTYPES[raw["dtype"]], len(self.metas) if storage is None else storage)
        self.metas[name] = meta
        return meta

    def _nodes(self, index: int, raw: Any) -> list[GraphNode]:
        """Return the node of one call, and for each of several results a `getitem`, as in an exporter's graph."""
        self.budget.spend(_NODE_STEPS)
        names = [ref.name for output in raw["outputs"] for ref in references(self._value(output))]
        if not names:
            return []
        target = str(raw["target"]).removeprefix("torch.ops.").removeprefix("higher_order.")
        args = {
            str(item.get("name") or position): self._value(item["arg"]) for position, item in enumerate(raw["inputs"])
        }
        behind = next((ref.name for value in args.values() for ref in references(value)), None)
        outputs = tuple(self._new(name, self._shared_storage(target, args, behind, name)) for name in names)
        scopes = _scopes(str(raw.get("metadata", {}).get("nn_module_stack", "")))
        multiple = len(names) > 1 or any("as_tensors" in output for output in raw["outputs"])
        if not multiple:
            return [GraphNode(names[0], target, args, outputs, scopes)]
        whole_name = f"{raw.get('name') or 'call'}#{index}"
        parts = [
            GraphNode(name, "getitem", {"self": Ref(whole_name), "index": position}, (outputs[position],), scopes)
            for position, name in enumerate(names)
        ]
        return [GraphNode(whole_name, target, args, outputs, scopes, multiple=True), *parts]

    def _shared_storage(self, target: str, args: dict[str, Any], behind: str | None, name: str) -> int | None:
        if behind is None or not target.startswith(("aten.", "prims.")):
            return None
        called, in_place = base_name(target)
        sizes, strides = self._layout(name)
        held = self.layouts[behind]
        same = (
            in_place
            or called in _VIEWS
            or (called in _RESHAPES and is_viewable(held, sizes))
            or (
                called in _SAME_IF_ALREADY
                and self._dtype(name) == self.metas[behind].dtype
                and (sizes, strides) == held
                and args.get("copy") is not True
            )
        )
        return self.metas[behind].storage if same else None

    def _layout(self, name: str) -> Layout:
        raw = self.body["tensor_values"][name]
        return layout([self._size(size) for size in raw["sizes"]], [self._stride(size) for size in raw["strides"]])

    def _dtype(self, name: str) -> str:
        return _DTYPES[self.body["tensor_values"][name]["dtype"]]

    def _value(self, raw: Any) -> Any:
        """Return an argument. Graphs, custom objects and the like are left out: they cost nothing we know."""
        ((kind, value),) = raw.items()
        if kind == "as_tensor":
            return Ref(str(value["name"]))
        if kind in ("as_tensors", "as_nested_tensors"):
            return [self._value({"as_tensor" if isinstance(item, dict) else "as_tensors": item}) for item in value]
        if kind in ("as_optional_tensors", "as_sym_ints"):
            return [self._value({"as_sym_int": item}) if kind == "as_sym_ints" else self._value(item) for item in value]
        if kind == "as_optional_tensor":
            return self._value(value)
        if kind == "as_sym_int":
            if "as_name" in value:
                return self._size(self.body["sym_int_values"][value["as_name"]])
            return whole(value["as_int"]) if value["as_int"] >= 0 else poly(int(value["as_int"]))
        if kind in ("as_int", "as_float", "as_bool", "as_string", "as_ints", "as_floats", "as_bools", "as_strings"):
            return value
        return None if kind == "as_none" else str(kind)


def _scopes(text: str) -> tuple[Scope, ...]:
    """Parse `L__self__,,Net;L__self__conv1,conv1,torch.nn.modules.conv.Conv2d`."""
    scopes = []
    for part in filter(None, text.split(";")):
        key, path, kind = part.split(",", 2)
        if not key.startswith("_empty"):
            scopes.append(Scope(key, path.split("@")[0], kind.rsplit(".", 1)[-1]))
    return tuple(scopes)
