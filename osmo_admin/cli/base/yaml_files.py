"""Files of the client, read by the same YAML reader as on the server (docs/values.md, "Scalars of YAML")."""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

from osmo_admin.cli.base.client_errors import ClientError
from pools.domain.values.file_text import decode_text

STANDARD_INPUT = "-"


def read_text_file(name: str | Path) -> str:
    """The text of a file, or of the standard input for `-`, each line with a newline at its end. Raises OSError and
    UnicodeDecodeError."""
    content = sys.stdin.buffer.read() if str(name) == STANDARD_INPUT else Path(name).read_bytes()
    return decode_text(content).replace("\r\n", "\n").replace("\r", "\n")


def read_map_file(name: str) -> dict[str, Any]:
    """The map in a YAML or JSON file. Raises `ClientError`."""
    try:
        text = read_text_file(name)
    except (OSError, UnicodeDecodeError) as error:
        raise ClientError(f"{name} cannot be read: {error}.") from error
    document = read_yaml_text(text, name)
    if not isinstance(document, dict):
        raise ClientError(f"{name} must hold a map of keys and values.")
    return document


def read_yaml_text(text: str, name: str) -> Any:
    """The one document of a YAML or JSON text as JSON values. `name` is that of the file in messages. Raises
    `ClientError` with every fault."""
    from scheduling.structured_yaml.value_reader import read_documents

    documents = read_documents(text)
    faults = [fault.as_dict() for document in documents for fault in document.faults]
    if faults:
        raise ClientError(f"{name} is neither JSON nor YAML that can be read.", details=faults)
    if len(documents) > 1:
        raise ClientError(f"{name} has several documents (`---`); write one.")
    return json_values(documents[0].value, name)


def json_values(value: Any, name: str) -> Any:
    """Values of the reader as JSON has them. Raises `ClientError` with each value that no reader can use, and each key
    that is given twice."""
    from pools.domain.values.scalars import UnreadableScalar
    from scheduling.structured_yaml.value_reader import DocumentMap

    faults: list[dict[str, Any]] = []

    def plain(inner: Any, path: str) -> Any:
        if isinstance(inner, dict):
            twice = inner.repeated_keys if isinstance(inner, DocumentMap) else ()
            faults.extend(
                {"path": f"{path}.{key}".lstrip("."), "message": f"The key {key} is given twice."} for key in twice
            )
            return {key: plain(each, f"{path}.{key}".lstrip(".")) for key, each in inner.items()}
        if isinstance(inner, list):
            return [plain(each, f"{path}[{number}]") for number, each in enumerate(inner)]
        if isinstance(inner, UnreadableScalar):
            faults.append({"path": path, "message": f"The value {inner.reason}."})
            return None
        if isinstance(inner, Fraction):
            try:
                return float(inner)
            except OverflowError:
                faults.append({"path": path, "message": "The number is too large."})
        return inner

    found = plain(value, "")
    if faults:
        raise ClientError(f"{name} holds a value that cannot be read.", details=faults)
    json.dumps(found)
    return found


def parse_number(text: str) -> int | float | str:
    """The JSON number that a text writes, else the text itself, which the server refuses with the rule of the field."""
    from pools.domain.values.scalars import typed_number

    return typed_number(text)


def parse_flavors(text: str) -> dict[str, int | float | str]:
    """`h100=4,a100=25%` as an object. Raises :class:`ClientError` for other text; the server checks the numbers."""
    result: dict[str, int | float | str] = {}
    for part in text.split(","):
        flavor, equals, gpus = (word.strip() for word in part.partition("="))
        if not equals or not flavor or flavor in result:
            raise ClientError("This is not a quota by flavor: write h100=4,a100=8, each flavor once.")
        result[flavor] = parse_number(gpus)
    return result


def parse_amounts(text: str) -> dict[str, str]:
    """`tflops=10,vram=1Gi` as an object. Raises :class:`ClientError` for other text; the server checks quantities."""
    result: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.strip().partition("=")
        if not equals or key not in {"tflops", "vram"} or key in result:
            raise ClientError("This is not a valid amount: write tflops=10,vram=1Gi, or one of the two.")
        result[key] = value
    return result
