"""The path of a Hugging Face `config.json`: in a folder, or in the local cache of the hub."""

import os
import re
from pathlib import Path

from analysis.model.model_errors import ModelSpecError


def file(where: str) -> Path:
    """Return the path of the configuration of a folder, a `config.json`, or a model in the local hub cache."""
    try:
        path = Path(where).expanduser()
        if path.is_dir():
            path = path / "config.json"
        if path.is_file():
            return path
    except (OSError, ValueError, RuntimeError):  # RuntimeError: unknown home folder
        raise ModelSpecError(f"{where[:80]!r} cannot be opened") from None
    if not where or where.startswith((".", "/", "~")) or not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", where):
        raise ModelSpecError(f"hf: no config.json in {where[:80]!r}")
    return _cached(where)


def is_here(where: str) -> bool:
    """Return True if `where` is a folder or a file, or a model in the local hub cache."""
    try:
        return os.path.exists(os.path.expanduser(where)) or bool(_snapshots(where))
    except (OSError, ValueError):
        return False


def _snapshots(name: str) -> list[Path]:
    home = os.environ.get("HF_HOME", "~/.cache/huggingface")
    hub = Path(os.path.expanduser(os.environ.get("HF_HUB_CACHE", os.path.join(home, "hub"))))
    return list((hub / f"models--{name.replace('/', '--')}" / "snapshots").glob("*/config.json"))


def _cached(name: str) -> Path:
    """Return the configuration of the newest snapshot in the hub cache, without downloading."""
    snapshots = _snapshots(name)
    if not snapshots:
        raise ModelSpecError(
            f"hf: {name[:80]} is neither a folder nor in the local hub cache; save its config.json in a folder and "
            "name hf:FOLDER"
        )
    return max(snapshots, key=lambda path: path.stat().st_mtime)
