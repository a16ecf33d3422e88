"""An installation that names no flavors has one, `default`, and says nothing of it: its answers, files and tables are
the kept ones to the byte, but for times, ids and stamps.

`kept_answers.txt` was first written by the version before flavors. Another answer on purpose: look at the difference,
then write the file anew with `KEEP_ANSWERS=1`.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pools.domain.changes.pools import PatchPool
from scheduling.configuration.texts import file_texts
from scheduling.domain.priorities import Priority
from scheduling.selectors.cluster.configuration import read_export
from tests.support import world
from tests.support.api_client import ApiClient

pytestmark = pytest.mark.django_db

KEPT = Path(__file__).with_name("kept_answers.txt")
ANSWERS = (
    "/api/configs/pool/team", "/api/configs/pool/team/subpool", "/api/configs/pool", "/api/configs/backend/sim",
    "/api/pool", "/api/pool_quota?all_pools=True", "/api/resources?pools=team", "/api/quota_tree",
    "/api/queue?pool=team--a", "/api/workflow/job-1", "/api/workflow/job-3", "/api/backend/sim/nodes",
    "/api/usage?by=pool&since=2020-01-01&until=2020-01-02",
)  # fmt: skip
TABLES = ("/pools?format=csv", "/workflows?format=csv", "/queue?format=csv")
_VOLATILE = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)?"), "TIME"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b"), "ID"),
    (re.compile(r'("(?:version|id|submit_wait|waited_s|waits|age_s|seconds|queued_time|duration)": )[\d.]+'), r"\1N"),
)


def answers(admin: ApiClient) -> Iterator[tuple[str, str]]:
    """Each address with its text, then each file of the configuration."""
    backend = world.make_backend(nodes=2, gpus=8)
    world.make_pool("team", 12, on=backend, a=4, b=2)
    world.make_pool("other", 4, on=backend)
    world.apply_change(PatchPool(name="team", patch={"resources": {"gpu": {"maximum": 16}}}))
    actor = world.admin_actor()
    for leaf, gpus, priority in (("team--a", 4, "NORMAL"), ("team", 8, "LOW"), ("team--a", 2, "NORMAL")):
        world.submit_workflow(actor, leaf, gpus, priority=Priority(priority))
        world.reconcile()
    refused = admin.submit("team--a", world.workflow_file("large", 5), query="priority=NORMAL")
    yield "a refused submission", json.dumps(refused, indent=1)
    for address in ANSWERS:
        text = admin("GET", address).text
        yield address, json.dumps(json.loads(text), indent=1) if text.startswith(("{", "[")) else text
    people = world.sign_in(admin.user)
    for address in TABLES:
        rows = list(csv.DictReader(io.StringIO(people.get(address).getvalue().decode())))
        yield address, "".join(f"{json.dumps(row)}\n" for row in map(_without_durations, rows))
    for name, text in sorted(file_texts(read_export().objects).items()):
        yield name, text


def _without_durations(row: dict[str, str]) -> dict[str, str]:
    return {column: "" if column.endswith("_seconds") else text for column, text in row.items()}


def without_times(text: str) -> str:
    for pattern, word in _VOLATILE:
        text = pattern.sub(word, text)
    return text


def test_without_flavors_the_answers_files_and_tables_are_the_kept_ones(admin: ApiClient) -> None:
    now = "".join(f"=== {name}\n{without_times(text).rstrip()}\n" for name, text in answers(admin))
    if os.environ.get("KEEP_ANSWERS"):
        KEPT.write_text(now)
    kept: Any = KEPT.read_text()
    assert now.splitlines() == kept.splitlines()


SILENT = (
    "/api/overview", "/api/audit", "/api/usage?by=backend", "/api/usage?by=workflow", "/api/usage?by=pool&format=csv",
    "/api/configs/subpool_quotas", "/api/backend/sim/losses", "/api/task?all_users=true",
    "/api/workflow?all_users=true",
)  # fmt: skip
SILENT_TABLES = (
    "/activity/audit?format=csv", "/usage?by=pool&format=csv", "/usage?by=user&format=csv", "/queue/team?format=csv",
)  # fmt: skip

SILENT_PAGES = ("/", "/pools", "/pools/team", "/queue", "/nodes", "/pools/team/quota")


def test_without_flavors_no_other_answer_file_or_metric_has_a_word_of_them(admin: ApiClient) -> None:
    assert list(answers(admin))
    people = world.sign_in(admin.user)
    for address in SILENT:
        text = admin("GET", address).text
        assert admin.status == 200, address
        assert "flavor" not in text, address
    for address in SILENT_TABLES:
        answer = people.get(address)
        assert answer["Content-Type"].startswith("text/csv"), address
        assert "flavor" not in answer.getvalue().decode(), address
    assert not any("oa-flavors" in people.get(page).content.decode() for page in SILENT_PAGES)
    text = people.get("/metrics").content.decode()
    assert "osmo_" in text and "flavor=" not in text
