"""The widgets as plain text, without an app."""

from hypothesis import given
from hypothesis import strategies as st

from analysis.document import Column
from hwexplorer.state import PANES, State
from hwexplorer.tui.keys import EditedLine, edit_line, insert_text
from hwexplorer.tui.palette import COLOURS, THEMES, Palette
from hwexplorer.tui.session.state_changes import Sizes, arrange, next_match
from hwexplorer.tui.widgets.plot_area import PlotArea
from hwexplorer.tui.widgets.prose import Prose
from hwexplorer.tui.widgets.tree_table import TreeTable
from hwexplorer.views.layout import shorten, width_of, wrap
from hwexplorer.views.plain import Plot, Row, Series, Table, Text, TreeIndex
from tests.tui.fake import Fake, render
from tests.waiting import CallCount

PALETTE = Palette("dark")


def lines(content: TreeTable | Prose | PlotArea, width: int, height: int, focused: bool = True) -> list[str]:
    content.resize(width, height)
    return ["".join(s.text for s in content.line(y, PALETTE, focused)).rstrip() for y in range(height)]


def tree(state: State | None = None) -> TreeTable:
    content = TreeTable()
    content.update(Fake().tree(state or State(precision="fp32")), frozenset({"conv1"}), hide=("delta",))
    return content


def test_the_tree_table() -> None:
    assert lines(tree(), 72, 8) == [
        "  name              share %        latency µs  energy mJ  cum %  bound",
        "▾ resnet50                ███████      753        176     100.0  memory",
        "├ ▾ conv1             1.2 ▉              9.00       2.10    1.2",
        "│ ├   conv            1.0 ▋              7.20       1.68         compute",
        "│ ├   bn              0.2 ▏              1.35       0.31         compute",
        "│ └   relu            0.1 ▏              0.45       0.10         compute",
        "├ ▸ layer1.0.conv1    4.0 ██▊           30.0        7.00    5.2",
        "├ ▸ layer1.0.conv2    6.8 ████▊         51.0       11.9    12.0",
    ]


def test_columns_drop_by_keep_and_never_the_share() -> None:
    narrow = lines(tree(), 46, 3)
    assert narrow[0].split() == ["name", "share", "%", "latency", "µs"]
    tiny = lines(tree(), 20, 3)
    assert tiny[0].split()[0] == "name"
    assert all(width_of(line) <= 20 for line in tiny)


def test_the_cursor_stays_on_its_key_when_the_order_changes() -> None:
    content = tree()
    content.go("layer2.0.conv2")
    content.update(Fake().tree(State(sort="share")), frozenset())
    assert content.key == "layer2.0.conv2"
    content.go("conv1/bn")  # closed: its branch stands for it
    assert content.key == "conv1"


def test_the_footer_stays_in_sight_and_clicks_find_their_row() -> None:
    content = TreeTable()
    content.update(Fake().events(State()))
    shown = lines(content, 50, 8)
    assert shown[-1].startswith("Σ 12 events = ")
    assert content.key_at(0) is None
    assert content.key_at(1) == "compute"
    assert content.key_at(7) is None
    content.scroll(100)
    assert lines(content, 50, 8)[6].split()[0:2] == ["└", "static"]


def big(count: int) -> Table:
    names = [f"block{i}.attention.projection" for i in range(count)]
    columns = (Column("name", "name", role="text", keep=0), Column("share", "share", "%", role="bar", keep=0))
    columns += tuple(Column(f"c{i}", f"c{i}", "s", keep=i) for i in range(1, 7))
    rows = [Row("", ("model", 1.0, *[1.0] * 6), depth=0, has_children=True)]
    rows += [Row(n, (n, 1 / (i + 2), *[1e-6 * (i + 1)] * 6), depth=1) for i, n in enumerate(names)]
    return Table("tree", "Tree", columns, tuple(rows))


def test_five_thousand_rows_are_not_drawn_to_repaint_forty() -> None:
    table, content = big(5000), TreeTable()
    content.resize(80, 40)
    with CallCount() as update:
        content.update(Table(table.name, table.title, table.columns, table.rows), frozenset())
        content.go(table.rows[4007].key)
        for y in range(40):
            content.line(y, PALETTE, True)
    assert update.calls < 20 * len(table.rows)
    with CallCount() as move:
        content.move(1)
        for y in range(40):
            content.line(y, PALETTE, True)
    assert move.calls < 5 * len(table.rows)


def test_the_plot() -> None:
    roof = Series("roof", (0.01, 100, 1e5), (1e10, 1e14, 1e14), line=True)
    points = Series("operators", (1, 10, 1000), (5e11, 8e12, 9e13), keys=("a", "b", "c"), labels=("a", "b", "c"))
    titles = {"x_title": "intensity", "y_title": "rate", "x_unit": "FLOP/byte", "y_unit": "FLOP/s"}
    plot = Plot(name="roofline", title="Roofline", series=(roof, points), **titles)
    drawn = ["".join(s.text for s in line).rstrip() for line in render(plot, 40, 12, PALETTE, "b")]
    assert drawn == [
        "rate FLOP/s  ─ roof  • operators",
        "100T ┤                     ⡠⠤⠤⠤⠤⠤⠤⠤⠤⠤⢤⠤⠤",
        "     │                  ⡠⠔⠉",
        "     │               ⡠⠔⠉",
        "     │            ⡠⠔⠉",
        " 10T ┤         ⡠⠔◉",
        "     │      ⡠⠔⠉",
        "     │   ⡠⠔⠉",
        "  1T ┤⡠⠔⠉",
        "     │ ⠂",
        "     └─┬─────────┬─────────┬──────────┬─",
        "       1        10        100        1k",
    ]


@given(st.integers(0, 120), st.integers(1, 40), st.booleans())
def test_a_plot_fits_whatever_its_size(width: int, height: int, ascii: bool) -> None:
    drawn = render(Fake().plot(State()), width, height, Palette("dark", ascii), "conv1/conv")
    assert len(drawn) == height
    assert all(sum(width_of(s.text) for s in line) <= width for line in drawn)


def test_prose_wraps_and_sets_keys_apart() -> None:
    content = Prose()
    content.update(Text("t", "t", (("Head", ("a long line of words that wraps", "key\tvalue of it")),)))
    assert lines(content, 20, 5) == ["Head", "a long line of words", "  that wraps", "key    value of it", ""]


@given(st.text(max_size=80), st.integers(0, 40))
def test_cut_and_wrapped_text_fits(text: str, width: int) -> None:
    assert width_of(shorten(text, width)) <= max(width, 0)
    assert width_of(shorten(text, width, True)) <= max(width, 0)
    assert all(width_of(line) <= max(width, 1) for line in wrap(text, width, 2))


@given(st.integers(1, 320), st.integers(1, 110), st.sampled_from(PANES), st.booleans(), st.integers(-99, 99))
def test_panes_fill_the_screen_without_overlap(width: int, height: int, pane: str, zoom: bool, by: int) -> None:
    boxes = arrange(width, height, pane, zoom, by % 40 + 1, Sizes(by, -by, by))
    assert pane in boxes
    assert sum(w * h for _, _, w, h in boxes.values()) == width * height
    assert all(w > 0 and h > 0 and x + w <= width and y + h <= height for x, y, w, h in boxes.values())


def test_ways_through_the_tree() -> None:
    table = Fake().tree(State())
    index = TreeIndex(table)
    assert index.ancestors("conv1/bn") == {"conv1", ""}
    assert index.children("conv1") == ["conv1/conv", "conv1/bn", "conv1/relu"]
    assert index.heaviest("conv1") == "conv1/conv"
    assert index.heaviest("").endswith("/conv")
    assert next_match(table, "LAYER2", "", 1) == "layer2.0.conv1"
    assert next_match(table, "layer2", "layer2.0.conv1", 0) == "layer2.0.conv1"
    assert next_match(table, "nowhere", "", 1) is None


def test_typing() -> None:
    prompt = insert_text(EditedLine(), "conv 1")
    for key in ("ctrl+w", "home", "delete", "end", "backspace"):
        prompt = edit_line(prompt, key, None)
    assert (prompt.text, prompt.place) == ("on", 2)
    prompt = edit_line(edit_line(prompt, "left", None), "x", "x")
    assert prompt.text == "oxn"
    assert edit_line(prompt, "ctrl+u", None).text == "n"
    assert insert_text(prompt, "\x1b[31m\n").text == "ox[31mn"


def test_every_look_has_every_role() -> None:
    for name in THEMES:
        assert COLOURS[name]
        for ascii in (False, True):
            assert Palette(name, ascii, dimmed=True).get("bar", 1)
