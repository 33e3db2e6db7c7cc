"""The bytes in device memory while each operator runs."""

from hardware.base.text import percent, quantity
from hwexplorer import engine
from hwexplorer.state import State
from hwexplorer.views.captions import scenario_words
from hwexplorer.views.plain import Plot, Series


def plot(state: State) -> Plot:
    """Return the plot of a state."""
    result = engine.result(state)
    use, ids, capacity = result.memory, result.partition.operator_id, result.device.memory_bytes
    total = tuple((use.weight_bytes + use.timeline + use.workspace).tolist())
    places = tuple(float(n) for n in range(1, len(ids) + 1))
    ends = (1.0, float(max(len(ids), 2)))
    series = [
        Series("held", places, total, keys=ids, labels=ids),
        Series("held", places, total, line=True),
        Series("weights", ends, (use.weight_bytes, use.weight_bytes), line=True),
    ]
    if ids:
        k = use.peak_at
        series.append(
            Series("peak", (places[k],), (use.peak_bytes,), keys=(ids[k],), labels=(f"peak {ids[k]}",), mark=True)
        )
    note = (
        f"peak {quantity(use.peak_bytes, 'byte')} at {ids[use.peak_at] if ids else 'no operator'}: weights "
        f"{quantity(use.weight_bytes, 'byte')}, activations {quantity(use.activation_peak_bytes, 'byte')}; "
        f"{percent(use.peak_bytes / capacity, 1)} of {quantity(capacity, 'byte')}"
    )
    return Plot(
        name="memory",
        title=f"Memory of {result.workload.name}, {scenario_words(state)} on {result.device.label}",
        x_title="Operators in order",
        y_title="Held",
        x_unit="count",
        y_unit="byte",
        series=tuple(series),
        log_x=False,
        log_y=False,
        notes=(note,),
    )
