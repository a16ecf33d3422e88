"""Kubernetes objects as plain JSON, in the form in which an API server sends and takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]
"""An object that its owner may change."""

ReadOnlyObject = Mapping[str, Any]
"""An object that is only read: it may be shared with an informer."""
