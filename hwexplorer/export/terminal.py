"""The text of an answer in colour, for a terminal. A pipe or a file gets plain text."""

from rich.console import Console
from rich.text import Text

from hwexplorer.text.links import split_links
from hwexplorer.views import plain

STYLES = {
    r"\A.*": "bold",  # the title
    r"(?<=\n\n)\S.*(?=\n\n)": "bold cyan",  # a heading
    r"(?m)^! .*": "yellow",
    r"(?m)\b1st\b|^  ?[A-Z].* (leads: |is best).*": "green",
    **{f"{look.texture}+": look.dark for look in plain.LOOKS if not look.texture.isascii()},
}


def paint(text: str) -> str:
    """Return the text with links and the colours that the terminal takes; without colours if NO_COLOR is set."""
    painted = Text.assemble(*((part, f"link {address}" if address else "") for part, address in split_links(text)))
    for pattern, style in STYLES.items():
        painted.highlight_regex(pattern, style)
    console = Console(force_terminal=True)
    with console.capture() as capture:
        console.print(painted, soft_wrap=True, end="")
    return capture.get()
