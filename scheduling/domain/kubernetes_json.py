"""Kubernetes objects as plain JSON, in the form in which an API server sends and accepts them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]
"""An object that its owner may change."""

ReadOnlyObject = Mapping[str, Any]
"""An object that is only read: it may be shared with an informer."""


def read_texts(item: ReadOnlyObject, part: str) -> dict[str, str]:
    """The `labels` or `annotations` of an object. Values that are not texts are left out."""
    metadata = item.get("metadata")
    texts = metadata.get(part) if isinstance(metadata, Mapping) else None
    return {key: value for key, value in texts.items() if isinstance(value, str)} if isinstance(texts, Mapping) else {}
