"""The lines of a trace, plain or gzip, one at a time: nothing of the file stays in memory, however long it is."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from pools.domain.errors import Fault
from scheduling.history.traces.faults import FileFaults

MAX_LINE_BYTES = 64 * 2**10
_GZIP = b"\x1f\x8b"


def read_lines(path: str, faults: FileFaults, *, longest: int = MAX_LINE_BYTES) -> Iterator[str]:
    """Every line, with its end. A line that is not UTF-8 or too long is a fault, and comes with what can be read; a
    file that cannot be opened, or breaks off, ends the lines."""
    number = 0
    try:
        with _open(path) as file:
            while chunk := file.readline(longest + 1):
                number += 1
                if len(chunk) > longest:
                    faults.add(number, "", Fault.BAD_VALUE, f"The line is longer than {longest} bytes.")
                    _skip_line(file, chunk)
                    chunk = b"\n"
                if number == 1:
                    chunk = chunk.removeprefix(b"\xef\xbb\xbf")
                try:
                    yield chunk.decode("utf-8")
                except UnicodeDecodeError:
                    faults.add(number, "", Fault.BAD_VALUE, "The line is not valid UTF-8.")
                    yield chunk.decode("utf-8", errors="replace")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        faults.add(number + 1, "", Fault.BAD_VALUE, f"The compressed file breaks off or is damaged here: {error}.")
    except OSError as error:
        faults.add(None, "", Fault.BAD_VALUE, f"'{path}' cannot be read: {error.strerror or error}.")


def is_json(path: str) -> bool:
    """Whether a file begins as a JSON object; False for one that cannot be read."""
    try:
        with _open(path) as file:
            return file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"
    except (OSError, EOFError, zlib.error):
        return False


def _open(path: str) -> BinaryIO:
    with Path(path).open("rb") as file:
        is_compressed = file.read(2) == _GZIP
    return cast("BinaryIO", gzip.open(path, "rb")) if is_compressed else Path(path).open("rb")


def _skip_line(file: BinaryIO, chunk: bytes) -> None:
    while chunk and not chunk.endswith(b"\n"):
        chunk = file.readline(MAX_LINE_BYTES)
