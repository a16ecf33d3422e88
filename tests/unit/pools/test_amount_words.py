"""Amounts in words."""

from __future__ import annotations

from pools.domain.values.amounts import hours_text


def test_little_is_not_nothing() -> None:
    assert hours_text(0.02, {"t4": 0.0}) == "less than 0.1 GPU-hours and 0.0 hours of t4 parts of GPUs"
    assert hours_text(0.05, {}) == "0.1 GPU-hours"
