"""All reading and writing of files, the rows of shipped tables as structs, and the folders of the user's data. Only
regular files of bounded size are read, so a FIFO or a device cannot block. Writing is all of a file or nothing. Errors
are `OSError`s whose `strerror` is plain English for the end of a line; those of a table name its file and record.
"""

import errno
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import source_hash
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from hardware.base.errors import RequestError, hint

TABLE_MAX = 1 << 18  # bytes of a TOML file: our largest has 70,000, and the worst of this size takes a second to read
DOTS_MAX = 100  # dots in a line: a key of 30,000 parts, 64 KB, takes 46 s to read
Stamp = tuple[str, int, int, int]  # a path, times of writing and of change, bytes
_OURS = Path(__file__).parents[2]
_MARK = len(source_hash(b""))
_PART = 1 << 20
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # a FIFO without a writer: no wait
_tables: dict[Path, Stamp] = {}  # TOML files from outside that were read
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
T = TypeVar("T")


def cache_folder() -> Path:
    """Return the folder of cached captures and tables, which can be made again."""
    return _folder("HWEXPLORER_CACHE_DIR", "cache")


def devices_folder() -> Path:
    """Return the folder of devices that were measured here; the measurements are below it."""
    return _folder("HWEXPLORER_DEVICES_DIR", "data") / "devices"


def _folder(variable: str, kind: str) -> Path:
    override = os.environ.get(variable)
    if not override:
        return user_folder(kind)
    try:
        return Path(override).expanduser()
    except RuntimeError:
        raise RequestError(f"{variable}: no home for {override[:60]!r}") from None


def user_folder(kind: str) -> Path:
    """Return the platform's folder for the user's `cache`, `config`, `data` or `state`. Without a home, return a path
    that cannot be written, never a folder called `~nobody` in the current one."""
    import platformdirs

    folder = Path(getattr(platformdirs, f"user_{kind}_dir")("hwexplorer", appauthor=False))
    return folder if folder.is_absolute() else Path(os.devnull, "hwexplorer")


def stamp(file: str) -> Stamp:
    """Return the path of a file, its times and its size, which differ after any change; '' and zeros without a file.
    Raises RequestError."""
    if not file:
        return "", 0, 0, 0
    path = os.path.expanduser(file)  # leaves ~name if there is no such user
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RequestError(f"{path[-80:]}: cannot be read ({reason})") from None
    return path, status.st_mtime_ns, status.st_ctime_ns, status.st_size


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file, to be read piece by piece. Raises OSError."""
    status = os.stat(path)  # before opening, which has effects on some devices
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder")
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "is no regular file")
    return os.fdopen(os.open(path, _READ), "rb")


def read(path: Path, most: int) -> bytes:
    """Return the contents of a regular file of at most `most` bytes. Raises OSError."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = _at_most(file, most + 1) if size <= most else b""
    if max(len(data), size) > most:
        raise OSError(errno.EFBIG, f"is larger than {most:,} bytes")
    return data


def _at_most(file: BinaryIO, size: int) -> bytes:
    """Read up to `size` bytes in pieces. In one call, Python would allocate all of them before it reads one."""
    parts, left = [], size
    while left and (part := file.read(min(left, _PART))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def text(data: bytes, errors: str = "strict") -> str:
    """Decode UTF-8 text, or UTF-16 text with a byte order mark (PowerShell). Raises OSError naming the wrong line."""
    is_wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        return data.decode("utf-16" if is_wide else "utf-8-sig", errors)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise OSError(errno.EILSEQ, f"line {line} is not UTF-8 text") from None


def table(path: Path, most: int = TABLE_MAX) -> dict[str, Any]:
    """Read a TOML file. Raises OSError, FileNotFoundError if the file does not exist."""
    is_ours = path.is_relative_to(_OURS)
    if not is_ours:
        with suppress(RequestError):
            _tables[path] = stamp(str(path))
    data = read(path, most)
    return _compiled(path, data) if is_ours else _parsed(data)


def is_table_edited() -> bool:
    """Return True if a TOML file from outside has changed or gone since it was read. It then counts as unread."""
    before = len(_tables)
    for path, read_stamp in [*_tables.items()]:
        try:
            if stamp(str(path)) == read_stamp:
                continue
        except RequestError:
            pass
        del _tables[path]
    return len(_tables) < before


def _compiled(path: Path, data: bytes) -> dict[str, Any]:
    """Read a TOML file of ours. Keep the parsed table in the user's cache with a hash, as Python keeps compiled
    modules."""
    name = f"{path.stem}-{source_hash(bytes(path)).hex()}.msgpack"
    with suppress(OSError, ValueError):  # not in the cache, or there is no cache
        kept = read(cache_folder() / "tables" / name, TABLE_MAX)
        mark, body = kept[:_MARK], kept[_MARK:]
        if mark == source_hash(data + body):
            decoded: dict[str, Any] = msgspec.msgpack.decode(body)
            return decoded
    parsed = _parsed(data)
    body = msgspec.msgpack.encode(parsed)
    if not sys.dont_write_bytecode and msgspec.msgpack.decode(body) == parsed:  # a date would become text
        with suppress(OSError, ValueError):  # nowhere to write
            place = cache_folder() / "tables" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            write(place, [source_hash(data + body), body])
    return parsed


def _parsed(data: bytes) -> dict[str, Any]:
    import tomllib  # not needed where all tables are compiled

    source = text(data)
    if any(line.count(".") > DOTS_MAX for line in source.split("\n")):
        raise OSError(errno.EINVAL, f"has a line with more than {DOTS_MAX} dots")
    try:
        return tomllib.loads(source)
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits is a plain ValueError
        raise OSError(errno.EINVAL, f"is not valid TOML: {' '.join(str(error).split())[:200]}") from None


@cache
def shipped(path: Path) -> dict[str, Any]:
    """Read a TOML file of ours once. The result is shared: do not change it."""
    return table(path)


def unzip(data: bytes, most: int) -> bytes:
    """Return the contents of a gzip file, at most `most` bytes. Raises OSError."""
    import gzip  # 1 ms that a start without a capture saves
    import io

    parts, size = [], 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:  # of one or several members
            while size <= most and (part := file.read(_PART)):  # a read of `most` bytes would allocate them
                parts.append(part)
                size += len(part)
    except (OSError, EOFError, zlib.error):
        data = b""
    if not data:
        raise OSError(errno.EINVAL, "is not a gzip file, or is damaged")
    if size > most:
        raise OSError(errno.EFBIG, f"holds more than {most:,} bytes")
    return b"".join(parts)


def write(path: Path, parts: Iterable[str | bytes], mode: int = 0o666) -> None:
    """Write all of a file or nothing, even if two processes write it at once or producing `parts` fails.

    Links and permissions are kept; a new file has `mode`. FIFOs, devices and open files are written in place. Raises
    OSError."""
    before = path.stat() if path.exists() else None
    if before is None and path.is_symlink():  # in another user's folder, it could create a file elsewhere
        raise OSError(errno.EINVAL, "is a link to a file that does not exist")
    if before is not None and (not stat.S_ISREG(before.st_mode) or _is_open(path)):
        try:
            target = os.open(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_NONBLOCK", 0))
        except OSError as error:  # instead of waiting for a reader
            is_unread = error.errno == errno.ENXIO and stat.S_ISFIFO(before.st_mode)
            raise OSError(error.errno, "is a FIFO without a reader" if is_unread else error.strerror) from None
        os.set_blocking(target, True)
        with os.fdopen(target, "wb") as file:
            file.writelines(map(_bytes, parts))
        return
    place = Path(os.path.realpath(path))
    temporary = place.with_name(f".{place.name[:50]}.{os.urandom(4).hex()}")
    try:
        permissions = mode if before is None else 0o600
        with os.fdopen(os.open(temporary, _CREATE, permissions), "wb") as file:
            file.writelines(map(_bytes, parts))
        if before is not None:
            os.chmod(temporary, stat.S_IMODE(before.st_mode))
        os.replace(temporary, place)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def turn(path: Path) -> Iterator[None]:
    """Let one process at a time read, change and write a file; others wait. Raises OSError."""
    with os.fdopen(os.open(path.with_name(f".{path.name[:50]}.lock"), os.O_RDWR | os.O_CREAT, 0o600), "wb") as file:
        with suppress(ImportError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _bytes(part: str | bytes) -> bytes:
    return part.encode() if isinstance(part, str) else part


def _is_open(path: Path) -> bool:
    """Return True if a link leads through /proc to a file that a process has open."""
    while path.is_symlink():
        if os.path.realpath(path.parent).startswith("/proc/"):
            return True
        path = path.parent / path.readlink()
    return False


def convert_record(path: Path, record: str, data: dict[str, Any], kind: type[T]) -> T:
    """Return a row as a struct. Raises ValueError with the file, the record and, of an unknown field, the nearest."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        unknown = re.search(r"unknown field `(\w+)`", str(error))
        known = {*getattr(kind, "__struct_fields__", ()), *_keys(data)} - {unknown[1] if unknown else ""}
        near = f" ({right})" if unknown and (right := hint(unknown[1], sorted(known))) else ""
        places = (path.name, record, _wrong_row(data, kind, str(error)))
        raise ValueError(f"{': '.join(filter(None, places))}: {error_words(error)}{near}") from None


_WORDS = {
    "Expected": "must be", "got": "not", ">=": "of at least", "<=": "of at most", ">": "above", "|": "or",
    "float": "a number", "int": "a whole number", "str": "text", "bool": "true or false", "array": "a list",
    "object": "a table", "null": "nothing",
}  # fmt: skip


def error_words(error: msgspec.ValidationError) -> str:
    """Write what msgspec finds wrong in plain words: `power_w must be a number above 0`."""
    wrong, _, place = str(error).partition(" - at `$")
    if wrong.startswith("Expected"):
        wrong = re.sub(r"\w+|[<>|]=?", lambda word: _WORDS.get(word[0], word[0]), wrong.replace("`", ""))
    return f"{place.strip('`.')} {wrong.removesuffix('.0')}".strip()


def _keys(data: dict[str, Any]) -> Iterator[str]:
    """Yield the keys of a table and of the tables in it."""
    for key, value in data.items():
        yield key
        if isinstance(value, dict):
            yield from _keys(value)


def _wrong_row(data: dict[str, Any], kind: type[Any], error: str) -> str:
    """Return the row of a table within the data that an error is about, '' if it is about another part."""
    found = re.search(r"`\$\.(\w+)\[\.\.\.\]", error)
    table = found[1] if found else ""
    for name, row in data.get(table, {}).items():
        try:
            msgspec.convert({**data, table: {name: row}}, kind)
        except msgspec.ValidationError as same:
            if str(same) == error:
                return f"{table}.{name}"
    return ""


def read_rows(path: Path, table: str, before: Mapping[str, dict[str, Any]] = {}) -> dict[str, dict[str, Any]]:
    """Return the rows of a table of a shipped file by name, after those `before` it. A row has the fields of its
    `base`, which stands before it, where it states none."""
    rows = {**before}
    for name, row in shipped(path)[table].items():
        rows[name] = {**rows.get(row.get("base"), {}), **row}
    return rows


def read_records(path: Path, table: str, kind: type[T]) -> dict[str, T]:
    """Return the rows of a table of a shipped file as structs by name. Raises ValueError."""
    return {name: convert_record(path, f"{table}.{name}", row, kind) for name, row in read_rows(path, table).items()}


def read_list(path: Path, table: str, kind: type[T]) -> tuple[T, ...]:
    """Return the rows of a table without names of a shipped file as structs. Raises ValueError."""
    rows = enumerate(shipped(path)[table], 1)
    return tuple(convert_record(path, f"{table}, row {place}", row, kind) for place, row in rows)
