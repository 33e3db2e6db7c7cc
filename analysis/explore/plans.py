"""Plans for a model on one device: a format for each layer within a bound on a loss, and the operators to fuse.

A layer is an operator that multiplies, with the operators after it until the next one. Its cost in a format is what it
takes in the estimate of the whole model in that format, so the conversion of tensors between layers is not counted.
"""

import csv
import io
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from analysis.document import YES_NO, column
from analysis.estimate import mixed_formats
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, head_fields
from analysis.explore.additive_choice import Choice, choose
from analysis.model.ir.workload import Floats
from hardware import precision
from hardware.base import file_access
from hardware.base.errors import RequestError, unknown
from hardware.precision import FORMATS

Losses = dict[tuple[str, str], float]  # of a layer in a format
_MOST_BYTES = 8 << 20
TOOLS = Path(__file__).with_name("plans.toml")


class LayerFormat(msgspec.Struct, frozen=True, kw_only=True):
    """A layer in the format that the plan gives it, with its cost there and in the widest format."""

    layer: Annotated[str, column("Layer")]
    format: Annotated[str, column("Format")]
    loss: Annotated[float, column("Loss", keep=1)]
    latency_s: Annotated[float, column("Latency", "s", keep=1)]
    energy_j: Annotated[float, column("Energy/layer", "J")]
    wide_energy_j: Annotated[float, column("Energy/layer, widest", "J", key="wide_energy", keep=2)]
    costs: dict[str, tuple[float, float]]


class FormatPlan(Head, frozen=True, kw_only=True):
    """The document of `hwexplorer advise formats`: the least `metric` of all sets of `formats` within the bound `most`
    on the sum of losses, which `judged` layers have. `uniform` has latency, energy and loss with all layers in one
    format."""

    metric: str
    most: float | None
    judged: int
    formats: tuple[str, ...]
    uniform: dict[str, tuple[float, float, float]]
    latency_s: float
    energy_j: float
    loss: float
    layers: tuple[LayerFormat, ...]


def _by_layer(values: Floats, layer: Any, count: int) -> Floats:
    sums: Floats = np.bincount(layer, weights=values, minlength=count).astype(np.float64)
    return sums


def read_table(path: Path, names: Sequence[str]) -> list[dict[str, str]]:
    """Read the rows of a table with at least these columns. Raises RequestError."""
    rows = csv.DictReader(io.StringIO(_text(path)))
    if missing := [name for name in names if name not in (rows.fieldnames or ())]:
        raise RequestError(f"{path.name}: no column {missing[0]}: expected {','.join(names)}")
    return [{name: str(row[name]) for name in names} for row in rows]


def _text(path: Path) -> str:
    try:
        return file_access.text(file_access.read(path, _MOST_BYTES))
    except (OSError, ValueError) as error:
        raise RequestError(f"{path.name}: {getattr(error, 'strerror', None) or error}") from None


def _modelopt_rows(path: Path, layers: Sequence[str]) -> list[dict[str, str]]:
    """Return the scores of a search by ModelOpt's `auto_quantize` as rows of layer, format, loss: its state, or the
    `candidate_stats` in it, as JSON. Layers that share a recipe, by their `module_names`, share its score."""
    tools, scores = file_access.shipped(TOOLS), defaultdict[tuple[str, str], float](float)
    try:
        state = json.loads(_text(path))
        stats = state.get("candidate_stats", state.get("layer_sensitivity", state))
        stats = {key.removesuffix(".quant_recipe"): found for key, found in stats.items()}
        for module, found in stats.items():
            head, _, last = module.rpartition(".")
            others = [f"{head}.{name}" for name in tools["together"].get(last, ())]
            named = found.get("module_names") or [module, *(name for name in others if name not in stats)]
            found_layers = list(dict.fromkeys(_own_layer(name, layers) for name in named))
            own = [layer for layer in found_layers if layer in layers] or found_layers
            for recipe, score in zip(found["formats"], found["scores"], strict=True):
                forms = [form for start, form in tools["recipes"].items() if str(recipe).startswith(start)]
                for layer in own if forms else ():
                    scores[layer, forms[0]] += float(score) / len(own)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise RequestError(
            f"{path.name}: expected the state of ModelOpt's auto_quantize, with candidate_stats"
        ) from None
    return [{"layer": layer, "format": form, "loss": str(score)} for (layer, form), score in scores.items()]


def _own_layer(name: str, layers: Sequence[str]) -> str:
    """Return the layer that a module of another library is: by its block and last word, if it is not a layer itself."""
    block, last = re.search(r"\blayers\.\d+\.", name), name.rpartition(".")[2]
    alike = [
        layer for layer in layers if layer.rpartition(".")[2] == last and layer.startswith(block[0] if block else last)
    ]
    return alike[0] if name not in layers and len(alike) == 1 else name


def _importance_rows(path: Path, formats: Sequence[str]) -> list[dict[str, str]]:
    """Return the losses of an importance matrix by llama.cpp: the share of a layer in the squares of all inputs, which
    weights' rounding errors are multiplied with, four times as large for each bit less than eight."""
    from analysis.model.transformer.weight_headers import importance  # of language models alone

    names = file_access.shipped(TOOLS)["importance"]
    squares = dict[str, float]()
    for tensor, square in importance(path).items():
        *block, part = tensor.removesuffix(".weight").rsplit(".", 1)
        if part in names:
            squares[f"{block[0].replace('blk', 'layers')}.{names[part]}" if block else names[part]] = square
    whole = sum(squares.values()) or 1.0
    bits = {form: FORMATS[precision.parse(form).weights].bits for form in formats}
    return [
        {"layer": layer, "format": form, "loss": f"{square / whole * 4.0 ** (8.0 - own):.6g}"}
        for layer, square in squares.items()
        for form, own in bits.items()
        if own <= 8.0
    ]


def read_losses(path: Path, layers: Sequence[str], formats: Sequence[str]) -> Losses:
    """Read the losses of layers in formats from a table with the columns layer, format and loss, from a search by
    ModelOpt (JSON) or an importance matrix (GGUF, or .dat before it). Raises RequestError with the line and the nearest
    name."""
    of_tool = dict.fromkeys((".gguf", ".gguf_file", ".dat", ".imatrix"), lambda: _importance_rows(path, formats))
    of_tool[".json"] = lambda: _modelopt_rows(path, layers)
    rows = of_tool.get(path.suffix, lambda: read_table(path, ("layer", "format", "loss")))()
    losses: Losses = {}
    for number, row in enumerate(rows, 2):
        layer, name = row["layer"], row["format"]
        place = f"{path.name}: {'row' if path.suffix in of_tool else 'line'} {number}"
        if layer not in layers:
            raise RequestError(f"{place}: {unknown('layer', layer, layers)}")
        try:
            loss = float(row["loss"])
        except ValueError:
            loss = math.nan
        if not loss >= 0.0:
            raise RequestError(f"{place}: loss {row['loss'][:20]!r} is not a number from 0 up")
        if name in formats:
            losses[layer, name] = loss
    if not losses:
        known = ", ".join(sorted({row["format"] for row in rows})) or "no layer"
        raise RequestError(f"{path.name}: losses of {known}, not of {', '.join(formats)}")
    return losses


def plan_formats(
    results: Sequence[Estimate],
    metric: str,
    most: float,
    losses: Callable[[Sequence[str]], Losses],
    keep: Sequence[str] = (),
) -> FormatPlan:
    """Return the plan among formats, the widest first, of whole-model estimates in these. Layers of `keep`, by path or
    by the beginning of one, stay in the widest. Raises RequestError if none keeps the bound."""
    names, layer = mixed_formats.layers(results[0].workload, results[0].demand)
    formats = tuple(result.format_name for result in results)
    table = losses(names)
    latency_s, energy_j = (
        np.stack([_by_layer(getattr(result.run, name), layer, len(names)) for result in results], axis=1)
        for name in ("latency_s", "energy_j")
    )
    loss = np.array([[table.get((name, form), 0.0) for form in formats] for name in names])
    known = {formats[0], *(form for _, form in table)}
    if len(known) > 1:  # a format without any loss in the file is not known to lose none
        loss[:, [form not in known for form in formats]] = np.inf
    for name in keep:
        kept = [i for i, own in enumerate(names) if mixed_formats.is_part(own, name)]
        if not kept:
            raise unknown("layer", name, names)
        loss[kept, 1:] = np.inf
    best = choose(latency_s, energy_j, loss, most, metric)
    if best is None:
        least = loss.min(axis=1).sum()
        raise RequestError(f"no set of formats keeps a loss of {most:g}: the least is {least:.4g}")
    rows = tuple(
        LayerFormat(
            layer=name, format=formats[option], loss=float(loss[i, option]), latency_s=float(latency_s[i, option]),
            energy_j=float(energy_j[i, option]), wide_energy_j=float(energy_j[i, 0]),
            costs={form: (float(latency_s[i, f]), float(energy_j[i, f])) for f, form in enumerate(formats)},
        )
        for i, (name, option) in enumerate(zip(names, best.options, strict=True))
    )  # fmt: skip
    sums = {
        form: (float(latency_s[:, f].sum()), float(energy_j[:, f].sum()), float(loss[np.isfinite(loss[:, f]), f].sum()))
        for f, form in enumerate(formats)
    }
    return FormatPlan(
        **head_fields(results[0], on_device=True), metric=metric, most=most if np.isfinite(most) else None,
        judged=len({layer for layer, _ in table}),
        formats=formats, uniform=sums, latency_s=best.latency_s, energy_j=best.energy_j, loss=best.loss, layers=rows,
    )  # fmt: skip


def default_formats() -> tuple[str, ...]:
    """Return the formats that a plan chooses among if none are named."""
    return tuple(file_access.shipped(TOOLS)["formats"])


def mixed_precision(formats: Sequence[tuple[str, str]]) -> str:
    """Return the precision that runs layers in formats: the format of most layers, then those of others."""
    forms = [form for _, form in formats]
    most = max(forms, key=forms.count, default=precision.DEFAULT)
    return "+".join([most, *(f"{layer}={form}" for layer, form in formats if form != most)])


def modelopt_config(plan: FormatPlan) -> str:
    """Return the plan as the `quant_cfg` of NVIDIA ModelOpt, JSON: quantizers of the layers that are narrowed."""
    config: dict[str, object] = {"default": {"enable": False}}
    bits = file_access.shipped(TOOLS)["modelopt"]
    for row in plan.layers:
        if row.format in bits:
            for quantizer in ("weight", "input"):
                config[f"*{row.layer.partition('#')[0]}.{quantizer}_quantizer"] = {"num_bits": bits[row.format]}
    return json.dumps({"quant_cfg": config, "algorithm": "max"}, indent=2) + "\n"


def torchao_config(plan: FormatPlan) -> str:
    """Return the plan as Python for torchao: the configuration of each linear layer that is narrowed."""
    configs = file_access.shipped(TOOLS)["torchao"]
    rows = [(row.layer.partition("#")[0], configs[row.format]) for row in plan.layers if row.format in configs]
    used = sorted({config.partition("(")[0] for _, config in rows})
    lines = [f"from torchao.quantization import FqnToConfig, quantize_{''.join(f', {name}' for name in used)}", ""]
    lines += ["config = FqnToConfig({", *(f"    {layer!r}: {config}," for layer, config in rows), "})"]
    return "\n".join([*lines, "quantize_(model, config)", ""])


class Fusion(msgspec.Struct, frozen=True, kw_only=True):
    """Operators that the software joins into one kernel, with what that saves: of latency and energy, of the EDP of the
    model if it is the only fusion, and if it is added to all others of the plan."""

    kernel: Annotated[str, column("Kernel")]
    operators: Annotated[str, column("Joins", keep=1)]
    is_chosen: Annotated[bool, column("Fuse", shown=YES_NO)]
    saved_s: Annotated[float, column("Saves time/run", "s", key="saved_time")]
    saved_j: Annotated[float, column("Saves energy/run", "J", key="saved_energy")]
    saved_alone_js: Annotated[
        float, column("EDP alone", "Js", key="alone", keep=1, help="saved if it is the only fusion")
    ]
    saved_in_set_js: Annotated[
        float, column("EDP in the set", "Js", key="in_set", keep=2, help="lost if it alone is left out")
    ]


class FusionPlan(Head, frozen=True, kw_only=True):
    """The document of `hwexplorer advise fusion`: the fusions that the software of a device makes, and the set of these
    with the least EDP; `unfused` and `fused` are latency and energy without and with all of them, `chosen` of the
    set. Kernels of one operator save what their neighbours' fusion changes for them."""

    unfused: tuple[float, float]
    fused: tuple[float, float]
    chosen: tuple[float, float]
    fusions: tuple[Fusion, ...]


def plan_fusions(result: Estimate) -> FusionPlan:
    """Return the fusions of an estimate against the same software without them, and the set of least EDP."""
    unfused = result.in_mode("eager")
    kernel, count = result.demand.kernel, int(result.demand.kernel.max()) + 1
    s, j = (
        np.stack([_by_layer(getattr(one.run, name), kernel, count) for one in (unfused, result)], axis=1)
        for name in ("latency_s", "energy_j")
    )
    members = [np.flatnonzero(kernel == k) for k in range(count)]
    loss = np.zeros_like(s)
    loss[[len(own) < 2 for own in members], 0] = np.inf  # one operator: nothing to choose
    best: Choice | None = choose(s, j, loss, np.inf, "edp")
    assert best is not None
    whole_s, whole_j = s.sum(axis=0), j.sum(axis=0)
    names, fusions = result.partition.operator_id, []
    for k, own in enumerate(members):
        saved_s, saved_j = float(s[k, 0] - s[k, 1]), float(j[k, 0] - j[k, 1])
        alone = whole_s[0] * whole_j[0] - (whole_s[0] - saved_s) * (whole_j[0] - saved_j)
        sign = 1.0 if best.options[k] else -1.0
        in_set = sign * ((best.latency_s + sign * saved_s) * (best.energy_j + sign * saved_j) - best.edp_js)
        fusions.append(
            Fusion(
                kernel=names[own[0]],
                operators=" + ".join(names[i].rpartition("/")[2] for i in own),
                is_chosen=bool(best.options[k]) and len(own) > 1,
                saved_s=saved_s, saved_j=saved_j, saved_alone_js=float(alone), saved_in_set_js=float(in_set),
            )
        )  # fmt: skip
    return FusionPlan(
        **head_fields(result, on_device=True), unfused=(float(whole_s[0]), float(whole_j[0])),
        fused=(float(whole_s[1]), float(whole_j[1])), chosen=(best.latency_s, best.energy_j),
        fusions=tuple(sorted(fusions, key=lambda fusion: -fusion.saved_alone_js)),
    )  # fmt: skip
