"""The whole screen as one frozen value, and as one string."""

from __future__ import annotations

import msgspec

DEFAULT_DEVICES = ("xeon_8490h", "h100_sxm", "tpu_v4", "kpu_t256")


class State(msgspec.Struct, frozen=True):
    """Everything the screen shows follows from this; keys map State -> State.

    `devices` are ids, `id:power_mode` or classes; `on` is the device under the cursor; `at` the node under
    the cursor ("" is the model); `pin` a state string of the pinned comparison, or "".
    """

    model: str = "resnet50"
    image_size: int | None = None
    batch: int = 1
    precision: str = "fp32"
    execution: str = "auto"
    layout: str = "nchw"
    devices: tuple[str, ...] = DEFAULT_DEVICES
    on: str = "h100_sxm"
    baseline: str = "h100_sxm"
    at: str = ""
    pane: str = "tree"
    zoom: bool = False
    metric: str = "edp"
    sort: str = "graph"
    descending: bool = True
    find: str = ""
    plot: str = "roofline"
    open: tuple[str, ...] = ()
    pin: str = ""
