"""The text of an uploaded file, which several forms take in place of a text field."""

from __future__ import annotations

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.forms import FileField

from pools.admin.forms import ServiceForm, unix_lines


class UploadForm(ServiceForm):
    """A file."""

    upload = FileField(required=False)


def read(content: bytes | None, *, longest: int = 20) -> tuple[str, list[str]]:
    """The text, and the errors at the field; twice the same, because a refused form is read again."""
    files = {} if content is None else {"upload": SimpleUploadedFile("mine.csv", content)}
    texts = set()
    for _ in range(2):
        form = UploadForm({}, files)
        form.full_clean()
        texts.add(form.read_upload("upload", longest=longest))
    (text,) = texts
    return text, list(form.errors.get("upload", []))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        (b"a\r\nb\n", "a\nb\n"),
        (b"\xef\xbb\xbfpool", "pool"),
        ("zwölf".encode(), "zwölf"),
        ("ö\r\n".encode("utf-16"), "ö\n"),
    ],
)
def test_the_text_has_unix_lines_and_no_byte_order_mark(content: bytes | None, text: str) -> None:
    assert read(content) == (text, [])


def test_a_long_file_and_other_encodings_are_refused() -> None:
    assert read(b"x" * 21) == ("", ["mine.csv has 21 bytes; the most is 20."])
    assert read(b"\xff\xfe\x00\xd8") == ("", ["mine.csv is not valid UTF-8 text."])


def test_lines_of_a_text_field_end_as_those_of_a_file() -> None:
    assert unix_lines("a\r\nb\nc") == "a\nb\nc"
