"""Pictures of the screen from state strings: `python -m lab.screenshots FOLDER`."""

import asyncio
import itertools
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hardware.base import file_access
from hwexplorer.screen_queries import ScreenQueries
from hwexplorer.state import parse
from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.view_export import screenshot

GRID, SMALL, LARGE = (120, 40), (80, 24), (160, 48)
BLOCKS = "resnet50@b8,fp16?by=module&sort=share"
PRODUCT = "vit_b_16@b8,int8?at=encoder.layers.encoder_layer_0.mlp.0"
DEEP = f"{BLOCKS}&at=layer3&open=layer3"


class Shot(msgspec.Struct, frozen=True):
    """One picture: a name, a state, the keys that follow, and the seconds until all is drawn."""

    name: str
    state: str
    size: tuple[int, int] = GRID
    keys: tuple[str, ...] = ()
    theme: str = "dark"
    ascii: bool = False
    seconds: float = 0.5  # the answer and the blocks follow the first frame


SHOTS = (
    Shot("explorer", DEEP, LARGE),
    Shot("diff", f"{DEEP}&pin=tpu_v4@b8,fp16"),
    Shot("small", DEEP, SMALL),
    Shot("request", "llama3_8b:in=512,out=128@fp16?by=module&sort=share", keys=("full_stop",)),
    Shot("light", DEEP, theme="light"),
    Shot("ascii", DEEP, ascii=True),
    Shot("models", "resnet50@b8,fp16?by=module&sort=share", GRID, keys=("1", *"net")),
    Shot("compare", "mobilenet_v2@b64,int8?by=module&sort=share&pane=compare", SMALL),
    Shot("events", "resnet50@b8,fp16?by=module&at=layer3&pane=events", SMALL),
    Shot("families", "resnet50@b8,fp16?by=module&at=layer3&pane=events&zoom=1", (120, 24)),
    Shot("wavefront", PRODUCT, keys=("W", "space", "home", *("right",) * 60)),
    Shot("wavefront_small", PRODUCT, SMALL, keys=("W", "space", "home", "tab", *("right",) * 60)),
    Shot("why", "resnet50@b8,fp16?by=module&at=layer3&pane=why", SMALL),
    Shot("plot", "vit_b_16@b8,bf16?by=module&sort=share&pane=why&plot=roofline", SMALL, keys=("full_stop",)),
    Shot("help", "resnet50", SMALL, keys=("question_mark",)),
    Shot("devices_in_tree", "resnet50@b8,fp16?heat=1&zoom=1&sort=share", GRID, keys=("full_stop",)),
    Shot("batch", "resnet50@b8,fp16?by=module&sort=share&pane=why&plot=batch", SMALL),
    Shot("wide", "vit_b_16@b64,bf16?by=module&sort=share", (200, 60), keys=("full_stop",)),
)


# The knobs of an A100: more memory bandwidth, step by step, until it passes an H100.
TOUR = Shot(
    "tour",
    "llama3_8b:decode/h100_sxm,a100_sxm4_80gb?on=a100_sxm4_80gb&by=module&sort=share&pane=knobs&knob=memory_bandwidth",
    keys=("right",) * 5,
)
TOUR_FRAME_S = 0.9


async def take(shot: Shot, provider: ScreenQueries, key_by_key: bool = False) -> list[str]:
    """Return the screen as SVG: after all keys, or also before and between them."""
    app = HwExplorer(parse(shot.state), provider, ascii=shot.ascii, theme=shot.theme)
    pictures = []
    async with app.run_test(size=shot.size) as pilot:
        for keys in [(), *zip(shot.keys, strict=True)] if key_by_key else [shot.keys]:
            await pilot.press(*keys)
            await pilot.pause(shot.seconds)
            pictures.append(screenshot(app, app.session, shot.state))
    return pictures


def animate(pictures: Sequence[str], frame_s: float) -> str:
    """Return one SVG that shows SVGs of equal size in turn, `frame_s` seconds each and the last three times as long."""
    size = re.search(r'viewBox="[^"]+"', pictures[0])
    total_s = frame_s * (len(pictures) + 2)
    starts = [f"{100 * index * frame_s / total_s:.3f}%" for index in range(len(pictures))]
    rules = [f".frame {{ visibility: hidden; animation: {total_s:g}s step-end infinite }}"]
    for index, (start, end) in enumerate(itertools.pairwise((*starts, "100%"))):
        steps = f"{start} {{ visibility: visible }} {end} {{ visibility: hidden }}"
        rules += [f"@keyframes f{index} {{ {steps} }}", f".f{index} {{ animation-name: f{index} }}"]
    rules.append(".f0 { visibility: visible }")  # in viewers that play nothing
    frames = [f'<g class="frame f{index}">{picture}</g>' for index, picture in enumerate(pictures)]
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {size.group() if size else ""}>'
    return "\n".join([opening, "<style>", *rules, "</style>", *frames, "</svg>"])


def main(folder: Path, provider: ScreenQueries) -> None:
    """Write all pictures to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for shot in SHOTS:
        path = folder / f"{shot.name}.svg"
        file_access.write(path, asyncio.run(take(shot, provider)))
        print(path)
    # Previews show the first picture: a turned knob.
    tour = asyncio.run(take(TOUR, provider, key_by_key=True))[1:]
    file_access.write(folder / f"{TOUR.name}.svg", [animate(tour, TOUR_FRAME_S)])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "screenshots"), ScreenQueries())
