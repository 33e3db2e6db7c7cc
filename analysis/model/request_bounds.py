"""The largest values that a request may have. The command line, states, scenarios and model names share them."""

from analysis.model.model_errors import ModelSpecError
from hardware.base.errors import RequestError
from hardware.base.text import parse_whole

BATCH = 4096
IMAGE_SIZE = 8192  # pixels along an edge
TOKENS = 1 << 20  # new tokens, and tokens in a cache
PARAMETER = 1 << 24  # a size in a building block, a configuration or an input shape
REPEATED = 1000  # sweeps and steps of a block, each of which has operators of its own


def range_error(what: str, value: object, most: int, least: int = 1) -> str:
    """Return the error text for a value that is not a whole number from `least` to `most`, else ''."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return ""
    return f"{what} {str(value)[:40]} is out of range (allowed: {least} to {most})"


def whole_option(name: str, text: str, least: int, most: int) -> int:
    """Return the whole number that an option of a model's name states. Raises ModelSpecError."""
    try:
        return parse_whole(text, least, most)
    except RequestError:
        raise ModelSpecError(f"{name}={text[:40]} is not a whole number from {least} to {most}") from None
