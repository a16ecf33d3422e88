"""`osmo simulate --live`: send changes from a file to the server and return the simulated state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from osmo_admin.cli.base.client_errors import ClientError
from osmo_admin.cli.base.session import ClientSession
from osmo_admin.cli.base.yaml_files import json_values


def simulate_live(session: ClientSession, files: Sequence[str], backend: str | None) -> dict[str, Any]:
    """The server's simulation of its own state with the changes of the file, `{changes: [...]}` or the list alone.

    Raises `ClientError` for a file that cannot be read, and for changes that the server refuses.
    """
    question: dict[str, Any] = {"live": True, "changes": read_changes(files)}
    if backend is not None:
        question["backend"] = backend
    answer: dict[str, Any] = session.http().send_change(
        "POST", "api/simulate", body=question, with_idempotency_key=False
    )
    return answer


def read_changes(files: Sequence[str], *, option: str = "--live") -> list[Any]:
    """The changes of a file; none without a file. Raises `ClientError`."""
    from scheduling.scenario.batch import answer_sources

    if not files:
        return []
    batch = answer_sources(files, lambda value: {"value": value}, error_code="SCENARIO")
    faults = [fault for entry in batch.entries if not entry.is_readable for fault in entry.body["details"]]
    if faults:
        raise ClientError(f"{files[0]} cannot be read.", details=faults)
    if len(batch.entries) != 1:
        raise ClientError(f"With {option}, name one FILE with one document: the changes.")
    value = batch.entries[0].body["value"]
    if isinstance(value, dict) and set(value) == {"changes"}:
        value = value["changes"]
    if not isinstance(value, list):
        raise ClientError(f"{files[0]} holds no changes: with {option} write {{changes: [...]}}, or the list alone.")
    plain: list[Any] = json_values(value, files[0])
    return plain
