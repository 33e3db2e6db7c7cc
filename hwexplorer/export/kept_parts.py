"""Keep the finished parts of a long run in the user's cache, so that a run that is stopped can be continued."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from hardware.base import file_access

_MOST_BYTES = 1 << 30
_PACKAGES = ("hardware", "analysis", "hwexplorer")


class KeptParts:
    """The texts of the first finished parts of a run, in order. Another request, other code or other data is another
    run. What cannot be read or written is not kept."""

    def __init__(self, work: Sequence[msgspec.Struct], folders: Sequence[Path]) -> None:
        self._path = file_access.cache_folder() / f"{_hash_run(work, folders)}.parts"
        self.texts: list[str] = []
        with suppress(OSError, msgspec.MsgspecError):
            lines = file_access.read(self._path, _MOST_BYTES).split(b"\n")
            for line in lines[: min(len(work), len(lines) - 1)]:  # the last line may be truncated
                self.texts.append(msgspec.json.decode(line, type=str))

    def continue_with(self, parts: Iterator[str]) -> Iterator[str]:
        """Yield the kept texts, then the others, each after it is kept. Forget them at the end."""
        yield from self.texts
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            lines = [msgspec.json.encode(text) + b"\n" for text in self.texts]
            self._path.write_bytes(b"".join(lines))
        for part in parts:
            with suppress(OSError), self._path.open("ab") as file:
                file.write(msgspec.json.encode(part) + b"\n")
            yield part
        with suppress(OSError):
            self._path.unlink()


def _hash_run(work: Sequence[msgspec.Struct], folders: Sequence[Path]) -> str:
    """Return a hash of the request, the code, the data and the device files: equal hashes mean equal texts."""
    root, digest = Path(__file__).parents[2], hashlib.sha256(msgspec.json.encode(work))
    for folder in (*(root / name for name in _PACKAGES), *folders):
        for path in sorted(path for suffix in ("py", "toml", "gz") for path in folder.rglob(f"*.{suffix}")):
            digest.update(str(path).encode(errors="surrogatepass") + path.read_bytes())
    return digest.hexdigest()[:16]
