"""The lines of a trace, plain or gzip, one at a time: nothing of the file stays in memory, however long it is."""

from __future__ import annotations

import codecs
import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from pools.domain.errors import Fault
from pools.domain.values.file_text import UTF_16_MARKS
from scheduling.history.traces.faults import FileFaults

MAX_LINE_BYTES = 64 * 2**10
MAX_GIVEN_BYTES: Final = 32 * 2**20
"""Of a file in memory, also of what a compressed one contains."""
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class GivenFile:
    """A file that a person sent: its name, and its bytes as they are."""

    name: str
    content: bytes

    def __str__(self) -> str:
        return self.name


Source = str | GivenFile
"""The path of a file, or a file in memory."""


def read_lines(source: Source, faults: FileFaults, *, longest: int = MAX_LINE_BYTES) -> Iterator[str]:
    """Every line, with its end. A line that is not UTF-8, has a zero byte or is too long is a fault, and comes with
    what can be read; a file that cannot be opened, or breaks off, ends the lines."""
    number = size = 0
    most = MAX_GIVEN_BYTES if isinstance(source, GivenFile) else sys.maxsize
    try:
        with _open(source) as file:
            while chunk := file.readline(longest + 1):
                number += 1
                size += len(chunk)
                is_too_long = len(chunk) > longest
                if is_too_long:
                    size += _skip_line(file, chunk, most=most - size)
                if size > most:
                    text = (
                        f"The file has more than {MAX_GIVEN_BYTES // 2**20} MiB of text. The command reads larger ones."
                    )
                    faults.add(number, "", Fault.BAD_VALUE, text)
                    return
                if is_too_long:
                    faults.add(number, "", Fault.BAD_VALUE, f"The line is longer than {longest} bytes.")
                    chunk = b"\n"
                if number == 1:
                    chunk = chunk.removeprefix(b"\xef\xbb\xbf")
                    if b"\r" in chunk.rstrip(b"\r\n"):
                        message = "The lines end with CR alone. Convert the file: tr '\\r' '\\n' < FILE > NEW."
                        faults.add(number, "", Fault.BAD_VALUE, message)
                        return
                if b"\0" in chunk:
                    faults.add(number, "", Fault.BAD_VALUE, "The line has a zero byte, so this is not a text.")
                    chunk = b"\n"
                try:
                    yield chunk.decode("utf-8")
                except UnicodeDecodeError:
                    faults.add(
                        number,
                        "",
                        Fault.BAD_VALUE,
                        "The line is not valid UTF-8. Convert the file: iconv -f LATIN1 -t UTF-8 FILE > NEW.",
                    )
                    yield chunk.decode("utf-8", errors="replace")
    except UnicodeDecodeError:
        message = "The file begins as UTF-16, and is not valid UTF-16 from here on."
        faults.add(number + 1, "", Fault.BAD_VALUE, message)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        faults.add(number + 1, "", Fault.BAD_VALUE, f"The compressed file breaks off or is damaged here: {error}.")
    except OSError as error:
        faults.add(None, "", Fault.BAD_VALUE, f"'{source}' cannot be read: {error.strerror or error}.")


def is_json(source: Source) -> bool:
    """Whether a file begins as a JSON object; False for one that cannot be read."""
    try:
        with _open(source) as file:
            return file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"
    except (OSError, EOFError, zlib.error, UnicodeDecodeError):
        return False


@contextmanager
def _open(source: Source) -> Iterator[BinaryIO]:
    """The bytes of its text, of UTF-16 as UTF-8."""
    with io.BytesIO(source.content) if isinstance(source, GivenFile) else Path(source).open("rb", buffering=0) as raw:
        file: io.BufferedReader[Any] = io.BufferedReader(cast("io.RawIOBase", raw))
        if file.peek(2)[:2] == _GZIP:
            file = io.BufferedReader(cast("io.RawIOBase", gzip.GzipFile(fileobj=file)))
        if file.peek(2)[:2] in UTF_16_MARKS:
            file = io.BufferedReader(_AsUtf8(file))
        yield cast("BinaryIO", file)


class _AsUtf8(io.RawIOBase):
    """The text of a file in UTF-16, as UTF-8, piece by piece."""

    def __init__(self, file: io.BufferedReader[Any]) -> None:
        self._file, self._decoder, self._rest = file, codecs.getincrementaldecoder("utf-16")(), b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest and (piece := self._file.read(len(buffer))):
            self._rest = self._decoder.decode(piece).encode()
        if not self._rest:
            self._decoder.decode(b"", final=True)
        given, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(given)] = given
        return len(given)


def _skip_line(file: BinaryIO, chunk: bytes, *, most: int) -> int:
    """Read on to the end of the line, or until more than `most` bytes were skipped. Returns the number of these."""
    skipped = 0
    while chunk and not chunk.endswith(b"\n") and skipped <= most:
        chunk = file.readline(MAX_LINE_BYTES)
        skipped += len(chunk)
    return skipped
