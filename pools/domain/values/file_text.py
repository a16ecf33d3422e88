"""The text of a file that a person gives."""

from __future__ import annotations

import codecs
from typing import Final

UTF_16_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def decode_text(content: bytes) -> str:
    """The text in UTF-8, or in UTF-16 if its mark begins it, as PowerShell and spreadsheets write it. The mark is left
    out. Raises UnicodeDecodeError."""
    return content.decode("utf-16" if content.startswith(UTF_16_MARKS) else "utf-8-sig")
