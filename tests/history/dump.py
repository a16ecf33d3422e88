"""Rows of the installation's tables, read around the product, for the record."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import psycopg

from tests.history.record import HIDDEN, SAMPLED, Recorder

SAMPLE_SECONDS = 2.0
_ROWS = """
    SELECT (to_jsonb(line) - %(hidden)s::text[]) || jsonb_build_object(
        '_xid', line.xmin::text,
        '_committed', (extract(epoch FROM pg_xact_commit_timestamp(line.xmin)) * 1000000)::bigint)
    FROM {table} line {where}
"""
_ACTIVE = "SELECT uuid FROM scheduling_workflow WHERE status IN ('PENDING', 'RUNNING', 'WAITING')"
_CHANGEABLE = {
    "scheduling_workflow": "WHERE line.status IN ('PENDING', 'RUNNING', 'WAITING')",
    "scheduling_group": f"WHERE line.workflow_id IN ({_ACTIVE})",
    "scheduling_task": f"WHERE line.group_id IN (SELECT uuid FROM scheduling_group WHERE workflow_id IN ({_ACTIVE}))",
    "pools_gpuallocation": "WHERE line.state <> 'released'",
}
"""Samples hold only these rows of these tables."""


def write_tables(recorder: Recorder, database_url: str, tables: Sequence[str], *, when: str, sample: int = 0) -> None:
    """Write the rows of these tables, all of one database snapshot."""
    found = {}
    with psycopg.connect(database_url, application_name="recorder", connect_timeout=10) as session:
        session.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        for table in tables:
            query = _ROWS.format(table=table, where=_CHANGEABLE.get(table, "") if when == "sample" else "")
            found[table] = [row for (row,) in session.execute(query, {"hidden": sorted(HIDDEN)}).fetchall()]  # type: ignore[call-overload]
    for table, rows in found.items():
        recorder.write("rows", when=when, sample=sample, table=table, rows=rows)


class Sampler:
    """Writes samples every few seconds until it is stopped."""

    def __init__(self, recorder: Recorder, database_url: str) -> None:
        self._recorder = recorder
        self._database_url = database_url
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler")
        self.count = 0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; a sample in progress is written first."""
        self._enough.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._enough.wait(SAMPLE_SECONDS):
            try:
                write_tables(self._recorder, self._database_url, SAMPLED, when="sample", sample=self.count + 1)
            except psycopg.Error:
                continue  # the database is down; the next sample comes
            self.count += 1
