"""Bodies that are YAML or JSON: manifests from files, read with the limits of scenario files.

The values are safe to traverse, to quote in a message, and to send back: the limits apply to the values after aliases
are expanded, not only to the bytes of the body.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from rest_framework import parsers

from pools.domain.errors import BadInput, Fault, Violation
from pools.domain.values.file_text import decode_text
from pools.domain.values.scalars import UnreadableScalar
from pools.domain.values.stored_text import is_storable
from scheduling.scenario.batch import document_value
from scheduling.structured_yaml.value_reader import (
    MAX_LEVELS,
    DocumentMap,
    YamlDocument,
    read_documents,
)

MAX_BODY_VALUES = 100_000
"""About 25 000 pods of a plan. Every value may break a rule, and each broken rule is a message in the answer."""

MAX_EXPANDED_CHARACTERS = 16 * 2**20
"""Characters of all texts and of the paths to all values: the most that messages can quote."""

_INDEX = len("[99999]")


class YamlBodyParser(parsers.BaseParser):
    """Reads the body as one YAML document (JSON is YAML, too) and ignores the content type; an empty body is an empty
    object.

    Repeated keys are recorded in `DocumentMap.repeated_keys` for the reader of the document. Raises `BadInput` for
    values that no reader can use, such as NaN, and for bodies that are too deep or too large.
    """

    media_type = "*/*"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        # Reading through `body` keeps the bytes: the check of an Idempotency-Key needs them again.
        content: bytes = stream.body if isinstance(stream, HttpRequest) else stream.read()
        if not content.strip():
            return {}
        value = document_value(_read_only_document(content))
        if faults := _find_scalar_faults(value):
            raise BadInput.of(faults)
        return value


def _read_only_document(content: bytes) -> YamlDocument:
    try:
        found = read_documents(decode_text(content))
    except UnicodeDecodeError:
        # Also from inside the reader: a tag can spell bytes as %ED%A0%80.
        raise _body_error("The body is not valid UTF-8.") from None
    if len(found) > 1 and not any(document.faults for document in found):
        raise _body_error("The body holds several documents; send one at a time.")
    # The first fault ends the read, so the last document has it.
    return found[-1]


def _find_scalar_faults(value: Any) -> list[Violation]:
    """All scalars that cannot be used. Raises `BadInput` as soon as a limit is exceeded, before much time or memory is
    used."""
    faults: list[Violation] = []
    values, spelled = 1, 0
    stack: list[tuple[str, int, Any]] = [("", 1, value)]
    while stack:
        path, level, inner = stack.pop()
        if isinstance(inner, UnreadableScalar):
            faults.append(Violation(path, Fault.BAD_VALUE, f"The value {inner.reason}."))
        elif isinstance(inner, str):
            spelled += len(inner)
            if not is_storable(inner):
                faults.append(_unstorable_text(path))
        elif isinstance(inner, dict | list):
            if level > MAX_LEVELS:
                raise _body_error(f"Values may stand at most {MAX_LEVELS} levels deep.")
            repeated = inner.repeated_keys if isinstance(inner, DocumentMap) else ()
            size = len(inner) + len(repeated)
            values += size
            spelled += size * (len(path) + _INDEX) + (sum(map(len, inner)) if isinstance(inner, dict) else 0)
            _check_size(values, spelled)
            if isinstance(inner, list):
                stack += [(f"{path}[{position}]", level + 1, below) for position, below in enumerate(inner)]
            elif all(map(is_storable, inner)):
                stack += [(f"{path}.{key}".lstrip("."), level + 1, below) for key, below in inner.items()]
            else:
                # No path may contain such a key, because it could not be sent.
                faults.append(_unstorable_text(path))
        _check_size(values, spelled)
    return sorted(faults, key=lambda fault: fault.path)


def _check_size(values: int, spelled: int) -> None:
    if values > MAX_BODY_VALUES:
        raise _body_error(f"The body holds more than {MAX_BODY_VALUES:,} values, and each use of an alias counts.")
    if spelled > MAX_EXPANDED_CHARACTERS:
        raise _body_error(
            f"The body spells out more than {MAX_EXPANDED_CHARACTERS:,} characters, with every alias written out."
        )


def _unstorable_text(path: str) -> Violation:
    return Violation(path, Fault.BAD_VALUE, "A text here holds a NUL character or half of a surrogate pair.")


def _body_error(message: str) -> BadInput:
    return BadInput(message, [Violation("", Fault.BAD_VALUE, message)])
