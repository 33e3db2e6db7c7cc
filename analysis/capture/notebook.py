"""A workload that shows itself in a notebook. No torch here."""

from __future__ import annotations

from html import escape

import numpy as np

from analysis.model.ir.coverage import coverage
from analysis.model.ir.workload import Workload

_ROWS = 12


class Captured(Workload, frozen=True, dict=True):
    """A workload, with a summary: size, coverage, and its subgraphs on one device of each architecture."""

    @property
    def macs(self) -> float:
        """Multiply-accumulates of one input."""
        return float((self.operators.macs @ self.value_at(**dict.fromkeys(self.dims, 1))).sum())

    @property
    def coverage(self) -> float:
        """Share of operators with a cost rule."""
        return float(self.operators.has_rule.mean()) if self.n_operators else 1.0

    def __repr__(self) -> str:
        return f"<{_summary(self)}>"

    def _repr_html_(self) -> str:
        header, rows = _table(self)
        head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
        lines = [
            "<tr>"
            + "".join(f'<td style="text-align:{"right" if i else "left"}">{escape(c)}</td>' for i, c in enumerate(row))
            + "</tr>"
            for row in rows
        ]
        notes = "".join(f"<br>{escape(note)}" for note in self.notes)
        return f"<b>{escape(_summary(self))}</b>{notes}<table><tr>{head}</tr>{''.join(lines)}</table>"


def as_captured(workload: Workload) -> Captured:
    """Return a workload that shows itself in a notebook."""
    return Captured(**{name: getattr(workload, name) for name in workload.__struct_fields__})


def _summary(model: Captured) -> str:
    from hardware.quantity import quantity

    words = [
        f"{quantity(model.parameters, 'SI')} parameters",
        quantity(model.macs, "MAC"),
        f"{model.n_operators} operators",
        "inputs " + ", ".join("x".join(str(size) for size in item.shape) for item in model.inputs),
    ]
    gaps = [f"{name} ({count}x)" for name, count in coverage(model).missing[:5]]
    if gaps:
        words.append(f"{model.coverage:.0%} of operators covered, not {', '.join(gaps)}")
    return f"{model.name}: {', '.join(words)}"


def _table(model: Captured) -> tuple[list[str], list[list[str]]]:
    """Return the subgraphs that take the largest share of the EDP on any device, in order; latency and energy of
    each."""
    from analysis.estimate.estimate import estimate
    from analysis.estimate.scenario import Scenario
    from analysis.estimate.tree import tree
    from analysis.model.ir.batch_limits import fixed_batch
    from hardware.architectures import known_architectures
    from hardware.device import load_device
    from hardware.quantity import quantity

    scenario = Scenario(batch=fixed_batch(model) or 1)
    devices = [load_device(name) for name in known_architectures.classes()]
    trees = [tree(estimate(model, device, scenario)) for device in devices]
    parts = trees[0].estimate.partition
    weight = np.max([each.subgraphs.share for each in trees], axis=0)
    order = sorted(np.argsort(-weight, kind="stable")[:_ROWS].tolist())
    header = ["subgraph", "kind", "MAC", *(device.name for device in devices)]
    total = [f"all {len(parts.id)}, batch {scenario.batch}", "", quantity(float(trees[0].operators.macs.sum()), "MAC")]
    total += [f"{quantity(t.estimate.latency_s, 's')}, {quantity(t.estimate.energy_j, 'J')}" for t in trees]
    rows = [total]
    for s in order:
        figures = [
            f"{quantity(float(t.subgraphs.latency_s[s]), 's')}, {quantity(float(t.subgraphs.energy_j[s]), 'J')}"
            for t in trees
        ]
        rows.append([parts.id[s], parts.kind[s], quantity(float(trees[0].subgraphs.macs[s]), "MAC"), *figures])
    return header, rows
