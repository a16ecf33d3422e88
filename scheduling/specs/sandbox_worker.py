"""A process of its own that renders templates: whatever a template does, only this process can run out of anything.

It is run as a file, not imported by us, and knows Jinja alone. On standard input: frames of JSON
`{"template", "variables", "largest", "seconds"}`; on standard output one frame for each: `{"text", "lines", "used",
"undefined": [{"name", "line", "inside"}]}`, or `{"error": {"code", "message", "line"}}` beside `undefined`. A frame is
four bytes of length (big-endian) and the JSON. The process ends with its standard input.
"""

from __future__ import annotations

import json
import re
import resource
import signal
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import jinja2
from jinja2 import meta
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream
from jinja2.sandbox import SandboxedEnvironment
from jinja2.utils import missing as nothing

MEMORY = 256 * 1024 * 1024
HOLE = "undefined"

_MARKER = re.compile("\ue000(\\d+)\ue001")
_CONTENT = re.compile("(?:[ \t-]|\ue000\\d+\ue001)*")


Holes = dict[tuple[str, int, str], None]
"""Name, source line, and for a part of a value what Jinja says of it; in the order met."""


class TooLarge(Exception):
    """The result has outgrown what was allowed."""


class Flag(str):
    """`true` or `false` as typed, that tests as what it says."""

    __slots__ = ("value",)
    value: bool

    def __new__(cls, text: str, value: bool) -> Self:
        made = super().__new__(cls, text)
        made.value = value
        return made

    def __bool__(self) -> bool:
        return self.value


class WrittenList(list):  # type: ignore[type-arg]  # plain subclass: only its text differs
    """A list that prints as it was typed."""

    written = ""

    def __str__(self) -> str:
        return self.written


class WrittenMap(dict):  # type: ignore[type-arg]  # as above
    """A map that prints as it was typed."""

    written = ""

    def __str__(self) -> str:
        return self.written


class LineMarks(Extension):
    """Writes the number of its source line before each line of plain template text."""

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        for token in stream:
            if token.type == "data":
                rows = token.value.split("\n")
                marked = "\n".join(f"\ue000{token.lineno + n}\ue001{row}" for n, row in enumerate(rows))
                yield Token(token.lineno, "data", marked)
            else:
                yield token


def decode(value: Any) -> Any:
    """The inverse of `scheduling.specs.variables.encode`."""
    if not isinstance(value, list):
        return value
    if value[0] == "l":
        return [decode(item) for item in value[1]]
    if value[0] == "m":
        return {key: decode(item) for key, item in value[1]}
    inner = decode(value[2])
    if isinstance(inner, bool):
        return Flag(value[1], inner)
    made: WrittenList | WrittenMap = WrittenList(inner) if isinstance(inner, list) else WrittenMap(inner)
    made.written = value[1]
    return made


def render(request: dict[str, Any]) -> dict[str, Any]:
    """One answer for one request; see the module."""
    missing: Holes = {}
    answer: dict[str, Any] = {}
    try:
        variables = decode(request["variables"])
        environment = make_environment(missing)
        tree = environment.parse(request["template"])
        answer["used"] = sorted(meta.find_undeclared_variables(tree))
        answer["text"] = run(environment, request["template"], variables, request["largest"])
        marking = make_environment({}, LineMarks)
        marked = run(marking, request["template"], variables, request["largest"] * 4)
        answer["lines"] = source_lines(marked, answer["text"])
    except jinja2.TemplateSyntaxError as error:
        answer["error"] = fault("syntax", error.message or "", error.lineno)
    except jinja2.UndefinedError as error:
        name = re.match(r"'(.+)' is undefined$", error.message or "")
        if name:
            missing[name[1], line_of(error) or 1, ""] = None
            answer["error"] = fault("stopped", "", None)
        else:
            answer["error"] = fault("failed", error.message or "", line_of(error))
    except SecurityError as error:
        answer["error"] = fault("forbidden", str(error), line_of(error))
    except (TooLarge, MemoryError, OverflowError):
        answer["error"] = fault("too_large", "", None)
    except RecursionError:
        answer["error"] = fault("too_deep", "", None)
    except Exception as error:  # noqa: BLE001  # a template can call anything its values offer, and so raise anything
        answer["error"] = fault("failed", f"{type(error).__name__}: {error}", line_of(error))
    answer["undefined"] = [{"name": name, "line": line, "inside": inside} for name, line, inside in missing]
    return answer


def make_environment(missing: Holes, *extensions: type[Extension]) -> SandboxedEnvironment:
    """OSMO's Jinja (sandboxed, strict), only that a variable without value is noted and printed as a hole."""

    class Missing(jinja2.StrictUndefined):
        __slots__ = ()

        def __str__(self) -> str:  # type: ignore[override]  # strict ones never return; ours leaves a hole
            if self._undefined_exception is not jinja2.UndefinedError:  # withheld by the sandbox, not absent
                self._fail_with_undefined_error()
            inside = "" if self._undefined_obj is nothing else self._undefined_message
            missing[str(self._undefined_name), line_of_caller(), inside] = None
            return HOLE

        # range() asks for this; its own error would not name the variable.
        __index__ = jinja2.StrictUndefined.__int__

    return SandboxedEnvironment(undefined=Missing, extensions=extensions, keep_trailing_newline=True)


def run(environment: SandboxedEnvironment, source: str, variables: dict[str, Any], largest: int) -> str:
    """The rendered text, given up as soon as it is larger than `largest` bytes."""
    pieces, size = [], 0
    template = environment.from_string(source)
    LINES.clear()
    LINES.append(template)
    for piece in template.generate(variables):
        pieces.append(piece)
        size += len(piece.encode("utf-8", "surrogatepass"))
        if size > largest:
            raise TooLarge
    return "".join(pieces)


LINES: list[jinja2.Template] = []
"""The template that is being rendered: it knows which source line a line of its compiled code came from."""


def line_of_caller() -> int:
    """The source line whose expression is being printed."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != "<template>":
        frame = frame.f_back
    return LINES[0].get_corresponding_lineno(frame.f_lineno) if frame is not None and LINES else 1


def line_of(error: Exception) -> int | None:
    """The source line in which rendering broke; Jinja puts it into the traceback."""
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def source_lines(marked: str, text: str) -> list[int]:
    """For each line of `text` its source line; empty if the marks changed what the template does."""
    if _MARKER.sub("", marked) != text:
        return []
    lines, current = [], 1
    for row in marked.split("\n"):
        before = _CONTENT.match(row)
        found = _MARKER.findall(before[0] if before else "") or _MARKER.findall(row)[:1]
        current = int(found[-1]) if found else current
        lines.append(current)
    return lines


def fault(code: str, message: str, line: int | None) -> dict[str, Any]:
    """The error part of an answer."""
    return {"code": code, "message": message[:500], "line": line}


def limit_memory() -> None:
    """Cap the address space at what we have now and `MEMORY` more (Linux; macOS has no such limit, only the clock)."""
    try:
        now = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    except OSError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))


def main() -> None:
    """Answer frames until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then closes our input
    limit_memory()
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    answer(sink, {"ready": True})
    while len(head := source.read(4)) == 4:
        request = json.loads(source.read(struct.unpack(">I", head)[0]))
        # Counts our processor time, so a busy machine changes nothing, and ends us even inside C code. It also stops a
        # render whose server has died meanwhile.
        signal.setitimer(signal.ITIMER_PROF, request["seconds"])
        reply = render(request)
        signal.setitimer(signal.ITIMER_PROF, 0)
        answer(sink, reply)


def answer(sink: Any, body: dict[str, Any]) -> None:
    """Write one frame."""
    data = json.dumps(body).encode()
    sink.write(struct.pack(">I", len(data)) + data)
    sink.flush()


if __name__ == "__main__":
    main()
