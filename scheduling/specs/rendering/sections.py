"""The text of a file before its YAML is read: `default-values` are removed, and the tokens of OSMO are hidden from
Jinja.

The part with the templates need not be valid YAML (`{% for %}` lines), so `default-values` is found by its lines: from
the key at the left margin to the next line at the margin that does not belong to it. Every other line keeps its number.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from itertools import takewhile

DEFAULT_VALUES_KEY = "default-values"

_DEFAULTS_KEY = re.compile(rf"""(["']?){DEFAULT_VALUES_KEY}\1\s*:""")
_TOP_KEY = re.compile(r"""["']?[A-Za-z][\w-]{0,100}["']?\s{0,20}:""", re.ASCII)
_ENDS = ("{%", "{#", "{{", "---", "...")

# OSMO's own tokens, filled in when a task starts: `{{output}}`, `{{input:0}}`, `{{host:master}}`. The last two are
# not valid Jinja. With blanks inside they count, too, unless a variable has that name.
_TOKEN = re.compile(
    r"\{\{([ \t]{0,4})((?:workflow_id|output|uuid)|(?:input|host):[\w.:-]{1,200})[ \t]{0,4}\}\}", re.ASCII
)
_TEMPLATE = re.compile(r"\{\{|\{%|(?<!\$)\{#")


@dataclass(frozen=True, slots=True)
class Sections:
    """A file in parts: `body` has as many lines as the file, `defaults` begins at line `defaults_line` of it.

    `header` are the comments it opens with (blank in the body). `repeated_line` is that of a second `default-values`,
    which only the author can resolve.
    """

    body: str
    header: tuple[str, ...] = ()
    defaults: str | None = None
    defaults_line: int = 1
    repeated_line: int | None = None
    is_json: bool = False


def split_sections(text: str) -> Sections:
    """Take `default-values` out of the file, and the comments above the first key, which OSMO does not render.

    In JSON the values are not lines of their own: they stay where they are.
    """
    lines = text.split("\n")
    if text.lstrip().startswith("{") and not text.lstrip().startswith(_ENDS):
        return Sections(text, is_json=True)
    starts = [number for number, line in enumerate(lines) if _DEFAULTS_KEY.match(line)]
    header = tuple(takewhile(_is_comment, lines))
    lines[: len(header)] = [""] * len(header)
    if not starts:
        return Sections("\n".join(lines), header)
    start = starts[0]
    end = next((n for n in range(start + 1, len(lines)) if _is_next_section(lines[n])), len(lines))
    defaults = "\n".join(lines[start:end])
    # A comment, for a blank line would become part of a block of text that ends here.
    lines[start:end] = ["# (values filled in)"] + [""] * (end - start - 1)
    return Sections("\n".join(lines), header, defaults, start + 1, starts[1] + 1 if len(starts) > 1 else None)


def restore_header(text: str, header: tuple[str, ...]) -> str:
    """The opening comments back in their lines, if these are still blank."""
    return "\n".join((*header, text[len(header) :])) if text.startswith("\n" * len(header)) else text


def has_template(text: str) -> bool:
    """Whether Jinja has anything to do. `${#` is shell (the length of a variable), not the start of a comment."""
    return _TEMPLATE.search(text) is not None


def hide_tokens(text: str, variables: frozenset[str]) -> tuple[str, dict[str, str]]:
    """`text` with OSMO's tokens as plain words, and the token for each word."""
    hidden: dict[str, str] = {}
    stem = f"osmo-{secrets.token_hex(8)}"  # a word that a text cannot contain on purpose

    def hide(found: re.Match[str]) -> str:
        if found[1] and found[2] in variables:
            return found[0]
        word = f"{stem}-{len(hidden)}."
        hidden[word] = found[0]
        return word

    return _TOKEN.sub(hide, text), hidden


def restore_tokens(text: str, hidden: dict[str, str]) -> str:
    """`text` with the tokens back in their places."""
    if not hidden:
        return text
    stem = next(iter(hidden)).rsplit("-", 1)[0]
    return re.sub(rf"{re.escape(stem)}-\d+\.", lambda found: hidden.get(found[0], found[0]), text)


def _is_next_section(line: str) -> bool:
    return line.startswith(_ENDS) or (_TOP_KEY.match(line) is not None)


def _is_comment(line: str) -> bool:
    return not line.strip() or (line.startswith("#") and not line.startswith("#}"))
