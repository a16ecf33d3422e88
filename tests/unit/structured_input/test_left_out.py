"""A file of the configuration that holds what only answers show gets a message (docs/values.md)."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.configuration.files import ConfigurationFiles, read_file


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        *(("pools", key, value) for key, value in [("status", "'OFFLINE'"), ("archived", "true"), ("version", "3"),
          ("parsed_pod_template", "{a: 1}"), ("parent_pool", "x"), ("platforms", "{a: {labels: {b: c}}}"),
          ("platforms", "{a: {tolerations: [{key: b}]}}"), ("platforms", "{a: {default_mounts: [/b]}}")]),
        *(("backends", key, value) for key, value in [("pools", "[x]"), ("server", "x"), ("auto_end", "false"),
          ("nodes", "[{name: a, gpus: 1}]"), ("reserve_after", "5"), ("ageing", "5"), ("victims", "least_lost"),
          ("name", "other")]),
        *(("cohorts", key, value) for key, value in [("pools", "[x]"), ("cohorts", "[x]"), ("explicit", "true")]),
    ],
)  # fmt: skip
def test_a_value_that_no_file_sets_is_noted(section: str, key: str, value: str) -> None:
    needed: dict[str, Any] = {"pools": "backend: b", "backends": "type: kubernetes, access: in_cluster"}
    found = ConfigurationFiles()
    body = ", ".join(filter(None, [needed.get(section), f"{key}: {value}"]))
    read_file("f.yaml", f"{section}: {{x: {{{body}}}}}".encode(), found)
    assert found.faults == []
    (note,) = found.notes
    assert note.startswith(f"{section}.x: {key}")
