"""A process that renders templates: only this process can run out of time and memory, whatever a template does.

It is run as a file, never imported by the server, and imports Jinja alone. On standard input: frames of JSON
`{"template", "variables", "largest", "seconds"}`; on standard output one frame for each: `{"text", "lines", "used",
"undefined": [{"name", "line", "inside"}]}`, or `{"error": {"code", "message", "line"}}` with `undefined`. A frame is
four bytes of length (big-endian) and the JSON. The process ends with its standard input. Each answer has `seconds`, the
processor time that it took.
"""

from __future__ import annotations

import json
import re
import resource
import signal
import struct
import sys
import time
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

MEMORY_BYTES = 256 * 1024 * 1024
UNDEFINED_TEXT = "undefined"

_MARKER = re.compile("\ue000(\\d+)\ue001")
_CONTENT = re.compile("(?:[ \t-]|\ue000\\d+\ue001)*")


UndefinedValues = dict[tuple[str, int, str], None]
"""Name, source line, and for a part of a value what Jinja says of it; in the order met."""


class TooLarge(Exception):
    """The result is larger than allowed."""


class TypedBoolean(str):
    """`true` or `false` as typed, which tests as that value."""

    __slots__ = ("value",)
    value: bool

    def __new__(cls, text: str, value: bool) -> Self:
        made = super().__new__(cls, text)
        made.value = value
        return made

    def __bool__(self) -> bool:
        return self.value


class TypedList(list):  # type: ignore[type-arg]  # plain subclass: only its text differs
    """A list that prints as it was typed."""

    written = ""

    def __str__(self) -> str:
        return self.written


class TypedMap(dict):  # type: ignore[type-arg]  # as above
    """A map that prints as it was typed."""

    written = ""

    def __str__(self) -> str:
        return self.written


class LineMarkers(Extension):
    """Writes the number of its source line before each line of plain template text."""

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        for token in stream:
            if token.type == "data":
                rows = token.value.split("\n")
                marked = "\n".join(f"\ue000{token.lineno + n}\ue001{row}" for n, row in enumerate(rows))
                yield Token(token.lineno, "data", marked)
            else:
                yield token


def decode_variables(value: Any) -> Any:
    """The inverse of `scheduling.specs.rendering.variables.encode_variables`."""
    if not isinstance(value, list):
        return value
    if value[0] == "l":
        return [decode_variables(item) for item in value[1]]
    if value[0] == "m":
        return {key: decode_variables(item) for key, item in value[1]}
    inner = decode_variables(value[2])
    if isinstance(inner, bool):
        return TypedBoolean(value[1], inner)
    made: TypedList | TypedMap = TypedList(inner) if isinstance(inner, list) else TypedMap(inner)
    made.written = value[1]
    return made


def answer_request(request: dict[str, Any]) -> dict[str, Any]:
    """One answer for one request; see the module."""
    missing: UndefinedValues = {}
    answer: dict[str, Any] = {}
    try:
        variables = decode_variables(request["variables"])
        environment = make_environment(missing)
        tree = environment.parse(request["template"])
        answer["used"] = sorted(meta.find_undeclared_variables(tree))
        answer["text"] = render_text(environment, request["template"], variables, request["largest"])
        marking = make_environment({}, LineMarkers)
        marked = render_text(marking, request["template"], variables, request["largest"] * 4)
        answer["lines"] = source_lines(marked, answer["text"])
    except jinja2.TemplateSyntaxError as error:
        answer["error"] = error_body("syntax", error.message or "", error.lineno)
    except jinja2.UndefinedError as error:
        name = re.match(r"'(.+)' is undefined$", error.message or "")
        if name:
            missing[name[1], error_line(error) or 1, ""] = None
            answer["error"] = error_body("stopped", "", None)
        else:
            answer["error"] = error_body("failed", error.message or "", error_line(error))
    except SecurityError as error:
        answer["error"] = error_body("forbidden", str(error), error_line(error))
    except (TooLarge, MemoryError, OverflowError):
        answer["error"] = error_body("too_large", "", None)
    except RecursionError:
        answer["error"] = error_body("too_deep", "", None)
    except Exception as error:  # noqa: BLE001  # a template can call methods of its values, and so raise anything
        answer["error"] = error_body("failed", f"{type(error).__name__}: {error}", error_line(error))
    answer["undefined"] = [{"name": name, "line": line, "inside": inside} for name, line, inside in missing]
    return answer


def make_environment(missing: UndefinedValues, *extensions: type[Extension]) -> SandboxedEnvironment:
    """OSMO's Jinja (sandboxed, strict), except that a variable without value is noted and printed as
    `UNDEFINED_TEXT`."""

    class Missing(jinja2.StrictUndefined):
        __slots__ = ()

        def __str__(self) -> str:  # type: ignore[override]  # strict ones never return; this one leaves a text
            if self._undefined_exception is not jinja2.UndefinedError:  # withheld by the sandbox, not absent
                self._fail_with_undefined_error()
            inside = "" if self._undefined_obj is nothing else self._undefined_message
            missing[str(self._undefined_name), printing_line(), inside] = None
            return UNDEFINED_TEXT

        # range() asks for this; its own error would not name the variable.
        __index__ = jinja2.StrictUndefined.__int__

    return SandboxedEnvironment(undefined=Missing, extensions=extensions, keep_trailing_newline=True)


def render_text(environment: SandboxedEnvironment, source: str, variables: dict[str, Any], largest: int) -> str:
    """The rendered text, ended as soon as it is larger than `largest` bytes."""
    pieces, size = [], 0
    template = environment.from_string(source)
    CURRENT_TEMPLATE.clear()
    CURRENT_TEMPLATE.append(template)
    for piece in template.generate(variables):
        pieces.append(piece)
        size += len(piece.encode("utf-8", "surrogatepass"))
        if size > largest:
            raise TooLarge
    return "".join(pieces)


CURRENT_TEMPLATE: list[jinja2.Template] = []
"""The template that is being rendered: it knows which source line a line of its compiled code came from."""


def printing_line() -> int:
    """The source line whose expression is being printed."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != "<template>":
        frame = frame.f_back
    return CURRENT_TEMPLATE[0].get_corresponding_lineno(frame.f_lineno) if frame is not None and CURRENT_TEMPLATE else 1


def error_line(error: Exception) -> int | None:
    """The source line in which rendering broke; Jinja puts it into the traceback."""
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def source_lines(marked: str, text: str) -> list[int]:
    """For each line of `text` its source line; empty if the markers changed the result of the template."""
    if _MARKER.sub("", marked) != text:
        return []
    lines, current = [], 1
    for row in marked.split("\n"):
        before = _CONTENT.match(row)
        found = _MARKER.findall(before[0] if before else "") or _MARKER.findall(row)[:1]
        current = int(found[-1]) if found else current
        lines.append(current)
    return lines


def error_body(code: str, message: str, line: int | None) -> dict[str, Any]:
    """The error part of an answer."""
    return {"code": code, "message": message[:500], "line": line}


def limit_memory() -> None:
    """Cap the address space at what we have now and `MEMORY` more (Linux; macOS has no such limit, only the clock)."""
    try:
        now = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    except OSError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY_BYTES, now + MEMORY_BYTES))


def main() -> None:
    """Answer frames until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then closes the input
    limit_memory()
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    write_frame(sink, {"ready": True})
    while len(head := source.read(4)) == 4:
        request = json.loads(source.read(struct.unpack(">I", head)[0]))
        # Counts processor time, so a busy node changes nothing, and ends the process even inside C code. It also stops
        # a render whose server has died meanwhile.
        signal.setitimer(signal.ITIMER_PROF, request["seconds"])
        started = time.process_time()
        reply = answer_request(request)
        signal.setitimer(signal.ITIMER_PROF, 0)
        reply["seconds"] = time.process_time() - started
        write_frame(sink, reply)


def write_frame(sink: Any, body: dict[str, Any]) -> None:
    """Write one frame."""
    data = json.dumps(body).encode()
    sink.write(struct.pack(">I", len(data)) + data)
    sink.flush()


if __name__ == "__main__":
    main()
