"""UserSettings, remap keys, the generated reference, what is computed ahead."""

from pathlib import Path

import pytest

from hwexplorer.state import parse
from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.keys import remap
from hwexplorer.tui.user_settings import UserSettings, read
from tests.tui.fake import Fake
from tests.waiting import settle_until

GRID = (120, 40)


def written(tmp_path: Path, text: str) -> tuple[UserSettings, str]:
    path = tmp_path / "settings.toml"
    path.write_text(text)
    return read(path)


def test_settings(tmp_path: Path) -> None:
    assert read(tmp_path / "none.toml") == (UserSettings(), "")
    settings, wrong = written(tmp_path, 'theme = "light"\nascii = true\nmouse = false\n[keys]\npin = "k f5"\n')
    assert (settings.theme, settings.ascii, settings.mouse, wrong) == ("light", True, False, "")
    assert settings.keymap.find("f5", "tree") is settings.keymap.by_id["pin"]
    assert settings.keymap.by_id["up"].keys == ("up",)  # whoever had the key gave it up


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("theme = ", "ignored"),
        ("\x00", "ignored"),
        ('theme = "drak"', "did you mean dark"),
        ("colour = 1", "unknown setting"),
        ("mouse = 3", "true or false"),
        ("keys = 3", "expected keys"),
        ('[keys]\nfly = "x"', "no action 'fly'"),
        ('[keys]\nhelp = ""', "help would have no key"),
        ("a = " + "[" * 3000, "ignored"),
    ],
)
def test_bad_settings_are_one_line(tmp_path: Path, text: str, says: str) -> None:
    settings, wrong = written(tmp_path, text)
    assert says in wrong
    assert "\n" not in wrong
    assert settings.theme == "dark"


async def test_remapped_keys_work_and_the_help_says_so() -> None:
    keymap, wrong = remap({"batch_up": ["f5"], "quit": ["f10"]})
    assert wrong == []
    app = HwExplorer(parse("resnet50"), Fake(), keymap=keymap, remark="settings: something")
    async with app.run_test(size=GRID) as pilot:
        assert app.session.message == ("settings: something", "warn")
        await pilot.press("f5", "]", "q")
        assert app.state.batch == 2
        hints = {id: key for id, key, _ in app.keymap.hints("tree")}
        assert hints["batch_up"] == "[ f5"


async def test_the_heaviest_path_is_open_at_the_start() -> None:
    app = HwExplorer(parse("resnet50"), Fake(), opens_heaviest=True)
    async with app.run_test(size=GRID):
        shares = {r.key: r.cells[1] for r in app.session.index.table.rows if r.depth == 1}
        heaviest = max(shares, key=lambda key: float(shares[key]))  # type: ignore[arg-type]
        assert (app.state.at, app.state.open) == (heaviest, ())
        assert app.explorer.outline.key == app.state.at
    app = HwExplorer(parse("resnet50?at=fc"), Fake(), opens_heaviest=True)
    assert app.state.at == "fc"


@pytest.mark.usefixtures("ahead")
@pytest.mark.parametrize(("keys", "at"), [(("]", "[", "}"), ""), (("j",), "conv1"), (("]", "j", "k"), "")])
async def test_what_the_next_key_asks_for_is_computed_while_idle(
    keys: tuple[str, ...], at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = Fake()
    app = HwExplorer(parse("resnet50@b8"), provider)
    async with app.run_test(size=GRID) as pilot:
        for key in keys:
            await settle_until(
                pilot, lambda: app.explorer.prefetch is not None and app.explorer.prefetch.done == app.state
            )
            assert app.explorer.prefetch is not None
            with monkeypatch.context() as still:
                still.setattr(app.explorer.prefetch, "wake", lambda: None)
                before = len(provider.calls)
                await pilot.press(key)
                assert len(provider.calls) == before, key
            app.explorer.prefetch.wake()
        assert app.state.at == at
    assert app.session.failures == []
