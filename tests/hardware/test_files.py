"""Files in one place: what is no file is not waited for, what is written is there whole or not at all, and a row of a
shipped table that is no record says where it stands."""

import datetime
import gzip
import os
import stat
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from hardware.architecture_facts import COMMON, Data
from hardware.base import file_access
from hardware.base.file_access import convert_record
from hardware.device_catalog import find_duplicates, find_folders
from hardware.engines import runtime


@pytest.mark.parametrize(("size", "most"), [(0, 0), (10, 10), (10, 100)])
def test_a_file_is_read(tmp_path: Path, size: int, most: int) -> None:
    (tmp_path / "a").write_bytes(b"x" * size)
    assert file_access.read(tmp_path / "a", most) == b"x" * size


def _wrong(path: Path, most: int = 100) -> str:
    with pytest.raises(OSError, match=r".") as error:
        file_access.read(path, most)
    return str(error.value.strerror)


def test_what_is_no_file_is_said_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "long").write_bytes(b"x" * 101)
    assert _wrong(tmp_path / "fifo") == "is no regular file"
    assert _wrong(tmp_path / "zero") == "is no regular file"
    assert _wrong(tmp_path) == "is a folder"
    assert _wrong(tmp_path / "long") == "is larger than 100 bytes"
    assert _wrong(Path("/proc/self/status"), 10) == "is larger than 10 bytes"  # its size is said to be 0
    with pytest.raises(FileNotFoundError):
        file_access.read(tmp_path / "none", 100)


def test_text_that_is_none_says_where() -> None:
    assert file_access.text("\ufeffgrün\n".encode()) == "grün\n"
    assert file_access.text("grün\n".encode("utf-16")) == "grün\n"
    with pytest.raises(OSError, match="line 3 is not UTF-8 text"):
        file_access.text(b"a\nb\nc\xff\n")


@pytest.mark.parametrize("data", [b"no gzip", gzip.compress(b"x" * 99, mtime=0)[:-9], gzip.compress(b"x", mtime=0)[:5]])
def test_a_gzip_file_that_is_none(data: bytes) -> None:
    with pytest.raises(OSError, match="is not a gzip file"):
        file_access.unzip(data, 100)
    assert file_access.unzip(gzip.compress(b"x" * 100), 100) == b"x" * 100
    assert file_access.unzip(gzip.compress(b"x" * 50) + gzip.compress(b"y" * 50), 100) == b"x" * 50 + b"y" * 50
    with pytest.raises(OSError, match="not a gzip"):
        file_access.unzip(b"", 100)
    with pytest.raises(OSError, match="holds more than 100 bytes"):
        file_access.unzip(gzip.compress(b"\0" * 10_000_000), 100)


def test_a_table_of_ours_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_access, "_OURS", tmp_path)
    monkeypatch.setenv("HWEXPLORER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    parsed: list[bytes] = []
    parse = file_access._parsed
    monkeypatch.setattr(file_access, "_parsed", lambda data: parsed.append(data) or parse(data))
    path = tmp_path / "gpu.toml"
    path.write_text("a = [1, 2.5]\n")
    assert [file_access.table(path) for _ in range(3)] == [{"a": [1, 2.5]}] * 3
    path.write_text("a = [1, 3.5]\n")  # as long, and it may be as old
    assert [file_access.table(path) for _ in range(3)] == [{"a": [1, 3.5]}] * 3
    assert len(parsed) == 2
    (kept,) = (tmp_path / "cache" / "tables").iterdir()
    for damaged in (b"", b"x", kept.read_bytes()[:-1], kept.read_bytes() + b"x"):
        kept.write_bytes(damaged)
        assert file_access.table(path) == {"a": [1, 3.5]}
    path.write_text("a = 2026-11-22\n")
    assert [file_access.table(path)["a"] for _ in range(2)] == [datetime.date(2026, 11, 22)] * 2
    path.write_text("a = \n")
    with pytest.raises(OSError, match="is not valid TOML"):
        file_access.table(path)


def test_nothing_is_kept_where_python_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_access, "_OURS", tmp_path)
    (tmp_path / "a.toml").write_text("a = 1\n")
    monkeypatch.setenv("HWEXPLORER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert file_access.table(tmp_path / "a.toml") == {"a": 1}
    assert not (tmp_path / "cache").exists()
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for nowhere in (str(tmp_path / "a.toml"), "~nobody-of-this-name"):
        monkeypatch.setenv("HWEXPLORER_CACHE_DIR", nowhere)
        assert file_access.table(tmp_path / "a.toml") == {"a": 1}


# --- writing ----------------------------------------------------------------------------------------------


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_permissions_stay_and_new_files_follow_the_umask(tmp_path: Path) -> None:
    place = tmp_path / "out"
    mask = os.umask(0o027)
    try:
        file_access.write(place, ["a", b"b"])
        file_access.write(tmp_path / "private", ["x"], 0o600)
    finally:
        os.umask(mask)
    assert (place.read_bytes(), _mode(place), _mode(tmp_path / "private")) == (b"ab", 0o640, 0o600)
    for mode in (0o600, 0o664):
        place.chmod(mode)
        file_access.write(place, ["c"])
        assert (place.read_text(), _mode(place)) == ("c", mode)


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    target, link, other = tmp_path / "far" / "real", tmp_path / "link", tmp_path / "far" / "other"
    target.write_text("old")
    other.symlink_to("real")
    link.symlink_to("far/other")
    file_access.write(link, ["new"])
    assert link.is_symlink()
    assert other.is_symlink()
    assert target.read_text() == "new"
    link.unlink()
    link.symlink_to("far/none")
    with pytest.raises(OSError, match="a link to a file that does not exist"):
        file_access.write(link, ["made"])
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["far", "link", "other", "real"]


def test_a_fifo_is_written_into(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(OSError, match="without a reader"):
        file_access.write(fifo, ["waits for no reader"])
    with os.fdopen(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        file_access.write(fifo, ["one ", b"two"])
        assert reader.read() == b"one two"
    assert stat.S_ISFIFO(fifo.stat().st_mode)


def test_what_is_open_already_goes_on(tmp_path: Path) -> None:
    """`>> log` and `-o /dev/fd/N`: the file is neither replaced nor begun anew."""
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.write(b"before ")
        file.flush()
        inode = log.stat().st_ino
        file_access.write(Path(f"/dev/fd/{file.fileno()}"), ["after"])
    assert log.read_bytes() == b"before after"
    assert log.stat().st_ino == inode
    file_access.write(Path("/dev/null"), ["gone"])
    assert Path("/dev/null").is_char_device()
    with pytest.raises(OSError, match="No space left"):
        file_access.write(Path("/dev/full"), ["x"])


def test_nothing_is_left_where_making_it_fails(tmp_path: Path) -> None:
    place = tmp_path / "out"
    place.write_text("old")

    def parts() -> Iterator[str]:
        yield "new"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        file_access.write(place, parts())
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out", "old")]


def test_two_that_write_at_once_leave_one_whole(tmp_path: Path) -> None:
    place = tmp_path / "out"
    texts = [str(i) * 100_000 for i in range(8)]
    threads = [threading.Thread(target=file_access.write, args=(place, [text])) for text in texts]
    place.write_text("old")
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert place.read_text() in ("old", *texts), "read while it is written"
    assert place.read_text() in texts
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_small_file_takes_little_memory_whatever_the_most(tmp_path: Path) -> None:
    path = tmp_path / "small.gz"
    path.write_bytes(gzip.compress(b"small"))
    tracemalloc.start()
    try:
        assert file_access.unzip(file_access.read(path, 1 << 30), 1 << 30) == b"small"
        assert tracemalloc.get_traced_memory()[1] < 4e6
    finally:
        tracemalloc.stop()


def test_a_folder_of_many_devices_is_listed_once_and_anew_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every device of a comparison looked through the whole folder three times: 1,500 took minutes."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.toml").write_text(f'id = "{name}"\n', encoding="utf-8")
    os.utime(tmp_path, ns=(0, 10**18))
    listed = []
    glob = Path.glob
    monkeypatch.setattr(Path, "glob", lambda folder, pattern: listed.append(folder) or glob(folder, pattern))
    for _ in range(5):
        assert {"one", "two"} <= find_folders((tmp_path,)).keys()
        assert not find_duplicates((tmp_path,))
    assert len(listed) == 1
    (tmp_path / "three.toml").write_text('id = "three"\n', encoding="utf-8")
    assert "three" in find_folders((tmp_path,))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"streming": {}}, "runtimes.toml: runtimes.vllm: Object contains unknown field `streming` (did you mean"),
        ({"mode": 3}, "runtimes.toml: runtimes.vllm: mode must be text, not a whole number"),
    ],
)
def test_a_wrong_field_names_file_and_record(change: dict[str, object], message: str) -> None:
    row = {"name": "vLLM", "mode": "fused", "runs_on": ["gpu"], **change}
    with pytest.raises(ValueError, match="runtimes") as error:
        convert_record(Path("runtimes.toml"), "runtimes.vllm", row, runtime.Runtime)
    assert str(error.value).startswith(message)
    assert "streaming" in str(error.value) or "mode" in change


@pytest.mark.parametrize("field", [{"scheduler": "vlm"}, {"formats": ["pytorchh"]}, {"products": "gml"}])
def test_a_runtime_names_what_is_recorded(field: dict[str, object]) -> None:
    row = {"name": "mine", "mode": "eager", "runs_on": ["gpu"], **field}
    with pytest.raises(ValueError, match=rf"mine\.toml: runtimes\.mine\.{next(iter(field))}: .* \(did you mean"):
        runtime._make_records(Path("mine.toml"), {"mine": row})


def test_a_wrong_constant_of_an_architecture_is_named() -> None:
    constants = file_access.shipped(COMMON)["assumptions"]
    data = {"assumptions": constants | {"tiles": {"value": "many"}}}
    with pytest.raises(ValueError, match=r"gpu\.toml: assumptions\.tiles: "):
        convert_record(Path("gpu.toml"), "", data, Data)
