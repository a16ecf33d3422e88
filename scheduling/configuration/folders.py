"""Folders of files: read all of them, and write an export."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pools.domain.errors import Fault, Violation
from scheduling.configuration.bodies import SECTIONS
from scheduling.configuration.files import ConfigurationFiles, read_file
from scheduling.configuration.texts import Objects, file_texts

SUFFIXES = (".yaml", ".yml", ".json")


def read_folder(folder: Path) -> ConfigurationFiles:
    """Every file of configuration below a folder, or one file. Names that begin with a dot are left out."""
    found = ConfigurationFiles()
    texts = list(_texts(folder))
    if not texts:
        message = f"{folder} has no file that ends in {', '.join(SUFFIXES)}. Make one with: osmo-admin export -f FOLDER"
        found.faults.append(Violation("", Fault.NO_FILES, message))
    for path, content in texts:
        read_file(path, content, found)
    return found


def write_folder(folder: Path, objects: Objects, *, left_out: Objects | None = None) -> tuple[int, int]:
    """Write one file for each object, and remove files of objects that are gone, which are files of the same layout;
    those of `left_out` stay as they are. Returns (files written, files removed)."""
    texts, kept = file_texts(objects), file_texts(left_out or {})
    written = removed = 0
    for path, text in texts.items():
        target = folder / path
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            write_whole(target, text)
            written += 1
    for section in SECTIONS:
        for old in sorted((folder / section.key).glob("*.yaml")):
            if f"{section.key}/{old.name}" not in {*texts, *kept}:
                old.unlink()
                removed += 1
    return written, removed


def write_whole(path: Path, text: str) -> None:
    """Write a file, so that a process that is killed leaves the former one or the new one, and none that ends early but
    can be read."""
    target = path.resolve()  # what a link leads to
    partial = target.with_name(f".{target.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(target)


def _texts(folder: Path) -> Iterator[tuple[str, bytes]]:
    if not folder.is_dir():
        yield folder.name, folder.read_bytes()
        return
    for child in sorted(folder.rglob("*")):
        below = child.relative_to(folder)
        if child.suffix in SUFFIXES and child.is_file() and not any(part.startswith(".") for part in below.parts):
            yield below.as_posix(), child.read_bytes()
