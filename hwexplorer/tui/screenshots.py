"""Pictures of the screen from state strings: `python -m hwexplorer.tui.screenshots FOLDER`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

from hardware import file_access
from hwexplorer.provider import EngineProvider
from hwexplorer.state import parse
from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.view_export import screenshot

GRID, SMALL = (120, 40), (80, 24)
BLOCKS = "resnet50@b8,fp16?by=module&sort=share"
DEEP = f"{BLOCKS}&at=layer3&open=layer3"


class Shot(msgspec.Struct, frozen=True):
    """One picture: a name, a state, the keys that follow, and the seconds until all is drawn."""

    name: str
    state: str
    size: tuple[int, int] = GRID
    keys: tuple[str, ...] = ()
    theme: str = "dark"
    ascii: bool = False
    seconds: float = 0.0


SHOTS = (
    Shot("explorer", DEEP),
    Shot("diff", f"{DEEP}&pin=tpu_v4@b8,fp16"),
    Shot("small", DEEP, SMALL),
    Shot("language_model", "llama3_70b@fp16?by=module&sort=share&pane=why", keys=("full_stop",)),
    Shot("request", "llama3_8b:in=512,out=128@fp16?by=module&sort=share", keys=("full_stop",)),
    Shot("terminal_colours", DEEP, theme="ansi"),
    Shot("light", DEEP, theme="light"),
    Shot("ascii", DEEP, ascii=True),
    Shot("models", "resnet50@b8,fp16?by=module&sort=share&pane=models&filter=net", GRID, seconds=0.5),
    Shot("compare", "mobilenet_v2@b64,int8?pane=compare", SMALL),
    Shot("tree", "resnet50@b8?by=module&sort=share", SMALL, keys=("full_stop",)),
    Shot("events", f"{DEEP}&pane=events", SMALL),
    Shot("why", f"{DEEP}&pane=why", SMALL),
    Shot("plot", "vit_b_16@b8,bf16?pane=plot", SMALL, keys=("full_stop",)),
    Shot("help", "resnet50", SMALL, keys=("question_mark",)),
    Shot("devices_in_tree", "resnet50@b8,fp16?heat=1&zoom=1&sort=share", GRID, keys=("full_stop",)),
    Shot("folded", "resnet18@b8,fp16/tpu_v4?fold=2&sort=share&at=layer1.0.conv1", SMALL),
    Shot("find", "resnet50@b8,fp16", SMALL, keys=("slash", *"kind:conv", "space", *"share>1")),
    Shot("command", "resnet50@b8,fp16", SMALL, keys=("colon", *"precision", "space")),
    Shot("picker", "resnet50", SMALL, keys=("a", *"jetson")),
    Shot("sheet", "resnet50?on=tpu_v4", SMALL, keys=("i",)),
    Shot("roofs", "resnet50@b8,fp16?pane=plot&plot=roofs", SMALL, keys=("full_stop",)),
    Shot("energy_roofs", "resnet50@b8,fp16?pane=plot&plot=energy_roofs", SMALL, keys=("full_stop",)),
    Shot("cumulative", "resnet50@b8,fp16?pane=plot&plot=cumulative", SMALL, keys=("full_stop",)),
    Shot("batch", "resnet50@b8,fp16?pane=plot&plot=batch", SMALL),
    Shot("pareto", "resnet50@b8,fp16?pane=plot&plot=pareto", SMALL),
    Shot("memory", "resnet50@b8,fp16?pane=plot&plot=memory", SMALL),
    Shot("paper", DEEP, theme="paper"),
    Shot("wide", "vit_b_16@b64,bf16?by=module&sort=share", (200, 60), keys=("full_stop",), seconds=0.5),
)


async def take(shot: Shot, provider: EngineProvider) -> str:
    """The screen as SVG."""
    app = HwExplorer(parse(shot.state), provider, ascii=shot.ascii, theme=shot.theme)
    async with app.run_test(size=shot.size) as pilot:
        await pilot.press(*shot.keys)
        await pilot.pause(shot.seconds)
        return screenshot(app, app.session, shot.state)


def main(folder: Path, provider: EngineProvider) -> None:
    """Write all pictures to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for shot in SHOTS:
        path = folder / f"{shot.name}.svg"
        file_access.write(path, [asyncio.run(take(shot, provider))])
        print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "screenshots"), EngineProvider())
