"""A provider with made-up figures that behave: they add up, follow the settings, and refuse what is wrong."""

import json

import msgspec
from rich.segment import Segment

from analysis.document import Column
from analysis.explore.grid import Point
from hardware import precision
from hardware.base.errors import RequestError, unknown
from hwexplorer.export.sheet import Sheet
from hwexplorer.reports.why import NodeGain
from hwexplorer.screen_queries import ScreenQueries
from hwexplorer.state import State, pinned, replace
from hwexplorer.tui.palette import Palette
from hwexplorer.views.plain import Card, CardFigure, Page, Plot, Row, Series, Stack, Table, Text


def render(plot: Plot, width: int, height: int, palette: Palette, cursor: str = "") -> list[list[Segment]]:
    """A plot in exactly `height` lines of at most `width` cells."""
    from hwexplorer.tui.widgets.plot_area import Drawing, draw  # a session needs no Textual

    drawing = draw(plot, width, height, palette)
    return drawing.lines(palette, cursor) if isinstance(drawing, Drawing) else drawing


DEVICES = {
    "xeon_8490h": ("Xeon 8490H", "CPU", 12.0, 9.0),
    "h100_sxm": ("H100 SXM", "GPU", 1.0, 1.0),
    "tpu_v4": ("TPU v4", "TPU", 1.7, 0.8),
    "kpu_t256": ("KPU-T256", "KPU", 2.4, 0.35),
}
MODELS = ("alexnet", "mobilenet_v2", "resnet18", "resnet50", "vit_b_16", "convnext_tiny", "swin_t", "slow_net")
OPERATORS = ("conv", "bn", "relu")


def subgraphs(model: str) -> list[str]:
    if model.startswith("big"):
        return [f"block{i}" for i in range(int(model[3:]))]
    return ["conv1", *(f"layer{i}.{j}.conv{k}" for i in (1, 2, 3, 4) for j in (0, 1) for k in (1, 2)), "fc"]


class Job:
    """A capture in three looks at its progress, or one that runs until `is_held` is False."""

    def __init__(self, is_held: bool = False) -> None:
        self.failure, self._looks, self.is_cancelled, self.is_held = "", 0, False, is_held

    def start(self) -> None:
        pass

    @property
    def progress(self) -> tuple[str, float]:
        self._looks += 1
        return "exporting", min(1.0, self._looks / 3)

    @property
    def is_done(self) -> bool:
        return self._looks >= 3 and not self.is_held

    def result(self) -> None:
        if self.failure:
            raise RequestError(self.failure)

    def cancel(self) -> None:
        self.is_cancelled = True


class Fake(ScreenQueries):
    def __init__(self, hostile: bool = False, holds: bool = False) -> None:
        self.captured: set[str] = set()
        self.holds = holds  # captures run until a test releases them
        self.calls: list[str] = []
        self.hostile = hostile
        self.job: Job | None = None

    def _cost(self, state: State, weight: float) -> tuple[float, float]:
        if state.on not in DEVICES:
            raise unknown("device", state.on, DEVICES)
        _, _, slow, hungry = DEVICES[state.on]
        size = precision.parse(state.precision).widths.weights / 4 * (0.7 if state.execution == "fused" else 1.0)
        seconds = weight * slow * (2e-5 + 1e-5 * state.batch * size)
        return seconds, weight * hungry * (4e-3 + 3e-3 * state.batch * size)

    def _weights(self, state: State) -> list[tuple[str, float]]:
        return [(name, 0.3 + (i * 7919 % 23) / 10) for i, name in enumerate(subgraphs(state.model))]

    def _total(self, state: State) -> tuple[float, float]:
        weight = sum(w for _, w in self._weights(state))
        return self._cost(state, weight)

    def models(self, state: State) -> Table:
        columns = (Column("name", "model", role="text", keep=0), Column("macs", "", "MAC"))
        rows = [Row(name, (name, (1 + i) * 6.1e8)) for i, name in enumerate(MODELS)]
        return Table("models", "Models", columns, tuple(rows))

    def compare(self, state: State) -> Table:
        self.calls.append("compare")
        columns = (
            Column("device", "device", role="text", keep=0),
            Column("class", "class", role="text", keep=4),
            Column("latency", "latency", "s", keep=1),
            Column("energy", "energy", "J", keep=1),
            Column("edp", "EDP", "Js", keep=2),
            Column("throughput", "inf/s", "1/s", keep=3),
            Column("power", "power", "W", keep=3),
            Column("util", "util", "%", keep=5),
            Column("bound", "bound", role="text", keep=2),
            Column("delta", "Δ EDP", "%", role="delta", keep=0),
        )
        there = pinned(state)
        rows = []
        names = {"name": sorted(state.devices), "rank": state.devices}.get(state.rank, state.devices)
        for device in reversed(names) if state.rank_reverse else names:
            here = replace(state, on=device, pin="")
            t, e = self._total(here)
            change = None
            if there is not None:
                pt, pe = self._total(there)
                change = (e * t) / (pe * pt) - 1
            name, kind = DEVICES[device][:2]
            cells = (name, kind, t, e, e * t, state.batch / t, e / t, 0.12, "memory" if t > 1e-3 else "compute", change)
            rows.append(Row(device, cells))
        best = "best energy: KPU-T256 · best latency: H100 SXM"
        return Table("compare", "Compare", columns, tuple(rows), notes=(best,))

    def cards(self, state: State) -> tuple[Card, ...]:
        if state.precision == "int4" and state.on == "xeon_8490h":
            raise RequestError("int4 is not something this fake can do on a Xeon")
        each = [(name, *self._total(replace(state, on=name, pin=""))) for name in state.devices]
        return tuple(
            Card(
                key=name,
                name=DEVICES[name][0],
                short=DEVICES[name][0],
                evidence="on paper" if name.startswith("kpu") else "measured",
                runs="compiler",
                format=state.precision,
                rank=0,
                on_paper=name.startswith("kpu"),
                figures=tuple(
                    CardFigure(label.lower(), label, f"{value:.2f}", unit)
                    for label, value, unit in (
                        ("latency", t * 1e3, "ms"),
                        ("rate", state.batch / t, "/s"),
                        ("energy", e, "J/inf"),
                        ("EDP", e * t, "J·s"),
                    )
                ),
                latency_s=t,
                rate_per_s=state.batch / t,
                energy_j=e,
                bar=Stack([0.4, 0.1, 0.2, 0.2, 0.0, 0.1]),
                value=e * t,
                band=(0.8 * e * t, 1.2 * e * t),
                fits=True,
                phrase="waits on launches 20 %",
            )
            for name, t, e in each
        )

    def answer(self, state: State) -> tuple[str, ...]:
        return ("H100 SXM is fastest.", "To be sure: measure.") if len(state.devices) > 1 else ()

    def tree(self, state: State) -> Table:
        self.calls.append("tree")
        columns = (
            Column("name", "name", role="text", keep=0),
            Column("share", "share", "%", role="bar", keep=0),
            Column("latency", "latency", "s", keep=1),
            Column("energy", "energy", "J", keep=1),
            Column("cumulative", "cum", "%", keep=4),
            Column("bound", "bound", role="text", keep=3),
            Column("delta", "Δ EDP", "%", role="delta", keep=0),
        )
        t, e = self._total(state)
        there = pinned(state)
        ratio = None
        if there is not None:
            pt, pe = self._total(there)
            ratio = (e * t) / (pe * pt) - 1
        rows = [Row("", (state.model, 1.0, t, e, 1.0, "memory", ratio), depth=0, has_children=True, kind="model")]
        weights = self._weights(state)
        total = sum(w for _, w in weights)
        if state.sort in ("share", "latency", "energy"):
            weights.sort(key=lambda p: p[1], reverse=state.descending)
        elif state.sort == "name":
            weights.sort(reverse=not state.descending)
        cumulative = 0.0
        for name, weight in weights:
            share = weight / total
            cumulative += share
            shown = f"[bold]{name}\x1b[31m 漢字" if self.hostile else name
            rows.append(
                Row(
                    name,
                    (shown, share, t * share, e * share, cumulative, "memory", ratio),
                    depth=1,
                    has_children=True,
                    kind="subgraph",
                )
            )
            for part, op in zip((0.8, 0.15, 0.05), OPERATORS, strict=True):
                cells = (op, share * part, t * share * part, e * share * part, None, "compute", ratio)
                rows.append(Row(f"{name}/{op}", cells, depth=2, has_children=False, kind="operator"))
        if state.heat:
            columns = (*columns[:2], *(Column("on:" + d, d, "Js", role="quantity", keep=2) for d in state.devices))
            columns = (*columns, Column("wins", "Wins", role="text"))
            shares = [(row, float(row.cells[1] or 0)) for row in rows]  # type: ignore[arg-type]
            rows = [
                Row(
                    r.key,
                    (*r.cells[:2], *(v / (n + 1) for n, _ in enumerate(state.devices)), state.devices[-1]),
                    depth=r.depth,
                    has_children=r.has_children,
                )
                for r, v in shares
            ]
        return Table("tree", f"Tree · {DEVICES[state.on][0]}", columns, tuple(rows))

    def events(self, state: State) -> Table:
        self.calls.append("events")
        columns = (
            Column("event", "event", role="text", keep=0),
            Column("share", "share", "%", role="bar", keep=0),
            Column("energy", "energy", "J", keep=1),
            Column("count", "count", "count", keep=3),
        )
        _, e = self._total(state)
        rows = []
        for category, part in (("compute", 0.3), ("memory", 0.45), ("control", 0.1), ("static", 0.15)):
            rows.append(Row(category, (category, part, e * part, None), depth=0, has_children=True))
            for n, piece in enumerate((0.7, 0.25, 0.05)):
                cells = (f"{category} event {n}", part * piece, e * part * piece, int(1e6 * part * piece))
                rows.append(Row(f"{category}.{n}", cells, depth=1))
        where = state.at or state.model
        return Table("events", f"Events · {where}", columns, tuple(rows), footer=(f"Σ 12 events = {e * 1e3:.3f} mJ",))

    def why(self, state: State) -> Text:
        t, _ = self._total(state)
        formula = f"t = max(compute {t * 0.4e6:.1f} µs, memory {t * 1e6:.1f} µs) + launch 2.0 µs"
        sections = (
            ("Bound by memory", (formula, "Twice the bandwidth, or batch 32, would make it compute bound.")),
            ("Mapping", ("401,408 threads, 1,568 blocks of 256, 132/132 SMs, 1.5 waves; depthwise: 12 % of peak.",)),
            ("Sources", ("DRAM read\t31 pJ/byte ± 20 % (published)", "tensor core\t0.35 pJ/FLOP (fitted)")),
        )
        return Text("why", f"Why · {state.at or state.model}", sections)

    def next_step(self, state: State) -> NodeGain | None:
        return NodeGain(f"b{state.batch * 4}", f"batch {state.batch * 4}", 3.0, 2.0, 4 / 3)

    def plot(self, state: State) -> Plot:
        rows = self.tree(state).rows[1:]
        x = tuple(0.5 * 1.13 ** (i % 60) for i in range(len(rows)))
        y = tuple(min(3.3e12 * v, 6e14) * (0.3 + (i * 37 % 60) / 100) for i, v in enumerate(x))
        keys = tuple(r.key for r in rows)
        roof = Series("roof", (1e-3, 182, 1e6), (3.3e9, 6e14, 6e14), line=True)
        points = Series("operators", x, y, keys=keys, labels=keys)
        title = f"Roofline · {DEVICES[state.on][0]}"
        return Plot(
            name="roofline",
            title=title,
            x_title="intensity",
            y_title="rate",
            x_unit="FLOP/byte",
            y_unit="FLOP/s",
            series=(roof, points),
        )

    def knobs(self, state: State) -> Page:
        t, e = self._total(state)
        told = Column("name", "knob", role="text", keep=0)
        columns = (told, Column("now", "now", role="text"), Column("was", "was", role="text"), Column("change", ""))
        figures = (("latency", t), ("energy", e), ("edp", e * t))
        before = Table("before", "", columns, tuple(Row(n, (n, f"{v:.2g}", f"{v:.2g}", 0.0)) for n, v in figures))
        value = Column(state.metric, state.metric)
        curve = tuple(Row(f"{f}", (f"{f} GHz", t / f, "now" if f == 1 else "")) for f in (0.5, 1, 2))
        columns = (told, value, Column("mark", "", role="text"))
        rows = tuple(Row(f"fact{i}", (f"fact{i}", 1.0 / (i + 1))) for i in range(9))
        tables = (before, Table("curve", "fact0 turned", columns, curve), Table("knobs", "", (told, value), rows))
        return Page("knobs", "Knobs", tables)

    def turn_knob(self, state: State, by: int) -> State:
        raise RequestError("a chip of the fake has no knobs")

    def status(self, state: State) -> str:
        return "coverage 100 %" + (" · fp8 run as fp16" if state.precision == "fp8" else "")

    def verdict(self, state: State) -> str:
        there = pinned(state)
        if there is None:
            return ""
        (t, e), (pt, pe) = self._total(state), self._total(there)
        return f"{state.on} b{state.batch} vs {there.on} b{there.batch}: EDP {(e * t) / (pe * pt) - 1:+.0%}"

    def devices(self, state: State) -> Table:
        columns = (
            Column("id", "Device", role="text", keep=0),
            Column("chosen", "In", role="text", keep=0),
            Column("class", "Arch", role="text", keep=1),
        )
        rows = [Row(id, (id, "x" if id in state.devices else "", DEVICES[id][1])) for id in DEVICES]
        return Table("devices", "Devices", columns, tuple(rows))

    def device_names(self, state: State) -> list[str]:
        return list(DEVICES)

    def device(self, name: str) -> Text:
        if name not in DEVICES:
            raise unknown("device", name, DEVICES)
        return Text("device", DEVICES[name][0], (("Facts", ("peak 1 TFLOP/s [data sheet: made up]",)),))

    def point(self, state: State, device: str) -> Point:
        t, e = self._total(replace(state, on=device))
        real = super().point(State(model="conv2d"), "l4")
        figures = {"latency_s": t, "energy_j_per_inference": e, "edp_js": t * e, "average_power_w": e / t}
        return msgspec.structs.replace(real, **figures, peak_memory_bytes=1e6)

    def operators_below(self, state: State) -> frozenset[str]:
        return frozenset(f"{state.at}/{operator}" for operator in OPERATORS)

    def device_key(self, name: str) -> str:
        if name not in DEVICES:
            raise unknown("device", name, DEVICES)
        return name

    def sheet(self, state: State, verb: str, width: int) -> Sheet | None:
        return Sheet(verb, f"{verb} of {state.model}") if verb in ("edp", "advise") else None

    def resolve_model_name(self, model: str, inputs: tuple[str, ...]) -> str:
        return model

    def is_edited(self, state: State) -> bool:
        return False

    def revision(self) -> int:
        return 0

    def ready(self, state: State) -> bool:
        if not state.model.startswith("big") and state.model.removesuffix(":train") not in MODELS:
            raise unknown("model", state.model, MODELS)
        return state.model != "slow_net" or state.model in self.captured

    def at_its_batch(self, state: State) -> State:
        return state

    def capture(self, state: State) -> Job:
        self.job = Job(self.holds)
        return self.job

    def keep(self, state: State, captured: object) -> None:
        self.captured.add(state.model)

    def exported(self, state: State, view: str, form: str) -> str:
        return json.dumps({"view": view, "model": state.model})
