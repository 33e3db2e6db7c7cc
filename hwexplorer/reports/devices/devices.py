"""List the devices."""

import msgspec

from analysis.document import Column, record
from hardware import device_catalog, known_architectures
from hardware.device import Device
from hardware.precision import FORMATS
from hwexplorer import engine
from hwexplorer.declare import CATALOGUE, Report
from hwexplorer.options import choice
from hwexplorer.process import output
from hwexplorer.state import State
from hwexplorer.views.digest import list_by_kind
from hwexplorer.views.plain import Table, Text
from hwexplorer.views.tables import rows


class ListedDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A device of the catalogue, with facts and peaks by name in SI units."""

    id: str
    name: str
    vendor: str
    architecture: str
    year: int | None
    is_silicon: bool
    silicon: bool
    aliases: tuple[str, ...]
    power_modes: tuple[str, ...]
    memory_technology: str
    facts: dict[str, float]
    peak_flops: dict[str, float]


class DeviceList(msgspec.Struct, frozen=True):
    """Every device that can be read; `errors` names the files that cannot be read."""

    devices: tuple[ListedDevice, ...]
    errors: tuple[str, ...]


def _devices(arch: str | None) -> tuple[list[Device], list[str]]:
    devices, errors = device_catalog.load_devices(engine.folders())
    return [device for device in devices if arch in (None, device.architecture)], errors


def _document(state: State, arch: str | None = None) -> DeviceList:
    devices, errors = _devices(arch)
    return DeviceList(tuple(map(_list_device, devices)), tuple(errors))


def _list_device(device: Device) -> ListedDevice:
    return record(
        ListedDevice,
        device,
        device.file,
        is_silicon=device.silicon,
        aliases=tuple(device.file.aliases),
        power_modes=tuple(device.file.power_modes),
        facts={name: fact.value for name, fact in device.facts.items()},
        peak_flops={f"{unit}.{form}": peak for (unit, form), peak in device.peaks.items()},
    )


def _widest_peak(device: Device) -> float:
    """Return the dense peak of the fastest floating-point format of 16 bits or more, else of the fastest format."""
    wide = [v for (_, name), v in device.peaks.items() if FORMATS[name].kind == "float" and FORMATS[name].bits >= 16]
    return max(wide or device.peaks.values())


LISTED = 80  # names of a kind in brief text
COLUMNS = (
    Column("id", "Device", role="text", keep=0, of="marked_key"),
    Column("name", "Name", role="text", keep=3),
    Column("architecture", "Arch", role="text", keep=1, of="arch.name"),
    Column(
        "peak", "Peak", "FLOP/s", keep=1, of=_widest_peak, help="dense peak of the fastest 16-bit or wider format"
    ),
    Column(
        "peak_int8", "Int8", "OP/s", keep=3, help="dense peak in int8, a multiply-add being two operations",
        of=lambda d: max((peak for (_, name), peak in d.peaks.items() if name == "int8"), default=None),
    ),
    Column("bandwidth", "Bandwidth", "byte/s", keep=2, of="memory_bandwidth"),
    Column("memory", "Memory", "byte", keep=3, help="beside the chip"),
    Column("limit", "Limit", "W", keep=2, of="power_limit_w", help="sustained power limit of the default mode"),
    Column("idle", "Idle", "W", keep=4),
    Column("process", "nm", "count", keep=5, of="process_nm"),
    Column("modes", "Power modes", role="text", keep=5, of=lambda d: " ".join(d.file.power_modes)),
)  # fmt: skip


def _view(state: State, arch: str | None = None) -> Table:
    devices, errors = _devices(arch)
    order = tuple(known_architectures.ALL)
    devices.sort(key=lambda d: (order.index(d.architecture), d.name.lower()))
    table_rows = rows(COLUMNS, devices, key="id", kind="architecture")
    return Table("devices", f"Devices ({len(devices)})", COLUMNS, table_rows, notes=tuple(errors))


def _brief(state: State, arch: str | None = None) -> Table | Text:
    """Return the names by architecture. With `arch`, or if the output is not a terminal but a program, return a table
    of rows."""
    table = _view(state, arch)
    if arch or not output.width():
        return msgspec.structs.replace(table, first=35 if output.width() else 0)
    return list_by_kind(
        table, "All names: hwexplorer devices --arch gpu. Peaks, bandwidth, memory and power: --all", most=LISTED
    )


VERB = Report(
    subject=CATALOGUE,
    options=(choice("--arch", tuple(known_architectures.ALL), help="only devices of this kind"),),
    document=_document,
    view=_view,
    brief=_brief,
    view_columns=COLUMNS,
    shown=("", "--arch cpu", "--format csv -o devices.csv"),
)
