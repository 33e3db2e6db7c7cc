"""The kernels on the device under the cursor under the roofs of all devices."""

from analysis.estimate.host_work import divide_host_work
from analysis.estimate.kernel_roofs import main_peak, points
from hardware.precision import rate_unit
from hwexplorer import engine
from hwexplorer.plots.roofline import operators, roof, span, under_roofs
from hwexplorer.state import State
from hwexplorer.views.plain import Plot


def plot(state: State) -> Plot:
    """Return the plot of a state."""
    result = divide_host_work(engine.result(state))[0]
    dots = points(result)
    roofs = {
        name: (main_peak(run)[1], run.device.memory_bandwidth)
        for name, run in ((name, engine.result(state, name)) for name in state.devices)
    }
    ridges = {name: peak / bandwidth for name, (peak, bandwidth) in roofs.items()}
    ends = span(dots.intensity, 2 * max(ridges.values()))
    series = [operators(state, result, dots.operator, dots.intensity, dots.flop_per_s)]
    series += [roof(engine.marked_key(name), ends, *run, place) for place, (name, run) in enumerate(roofs.items())]
    words = ", ".join(f"{engine.marked_key(name)} {ridge:.0f}" for name, ridge in ridges.items())
    title = f"{result.workload.name} on {result.device.label} under the roofs of all devices"
    return under_roofs("roofs", title, series, f"ridges (FLOP/byte): {words}", unit=rate_unit(result.precision_run))
