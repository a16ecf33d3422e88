"""The audit log as a file, and the revert of a change from its entry."""

from __future__ import annotations

import csv
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.test import Client

from pools.domain.roles import SYSTEM
from pools.models import AuditEntry, Pool
from pools.services.pools import patch_pool
from pools.services.subpools import create_subpool, delete_subpool, resize_subpool
from tests.integration.admin.conftest import actor_named


def _latest(name: str) -> AuditEntry:
    return AuditEntry.objects.filter(object=name).latest("id")


def _revert(client: Client, entry: AuditEntry) -> str:
    address: str = client.get(f"/pools/auditentry/{entry.pk}/change/").context["revert"]
    return address


def _confirm(client: Client, address: str) -> Any:
    page = client.get(address)
    assert page.status_code == 200, page.content.decode()
    return client.post(page.context["form_address"], {**page.context["hidden"], "step": "confirm"})


def test_the_export_has_the_rows_of_the_filters(as_person: Callable[[str], Client]) -> None:
    chief = as_person("chief")
    listed = chief.get("/pools/auditentry/?q=pool/team--a").context["window"].rows
    rows = list(csv.DictReader(StringIO(chief.get("/pools/auditentry/?q=pool/team--a&format=csv").content.decode())))
    assert [int(row["id"]) for row in rows] == [entry.pk for entry in listed]
    assert rows[0]["sentence"]
    assert rows[0]["time"].endswith("Z")
    body = chief.get("/pools/auditentry/?q=pool/team--a&format=json").json()
    assert body["entries"] == chief.get("/api/audit?object=pool/team--a").json()["entries"]
    assert not as_person("stranger").get("/pools/auditentry/?q=pool/team--a&format=json").json()["entries"]


def test_a_resize_is_reverted_through_its_preview(as_person: Callable[[str], Client]) -> None:
    resize_subpool(actor=actor_named("chief"), parent="team", subpool_name="a", quota=40)
    entry, chief = _latest("pool/team--a"), as_person("chief")
    assert _confirm(chief, _revert(chief, entry)).status_code == 302
    assert Pool.objects.get(name="team--a").last_quota == 30
    assert _latest("pool/team--a").description == f"Revert of audit entry {entry.pk}"
    assert _revert(as_person("root"), entry)
    assert as_person("viewer").get(f"/pools/auditentry/{entry.pk}/change/").context["revert"] == ""


def test_a_creation_and_a_deletion_are_reverted(as_person: Callable[[str], Client]) -> None:
    create_subpool(actor=SYSTEM, parent="team", subpool_name="new", quota=5)
    chief = as_person("chief")
    assert _confirm(chief, _revert(chief, _latest("pool/team--new"))).status_code == 302
    assert Pool.objects.get(name="team--new").subpool_state == "ARCHIVED"
    delete_subpool(actor=SYSTEM, parent="team", subpool_name="b")
    assert _confirm(chief, _revert(chief, _latest("pool/team--b"))).status_code == 302
    row = Pool.objects.get(name="team--b")
    assert (row.subpool_state, row.last_quota) == ("ACTIVE", 20)


@pytest.mark.parametrize(
    "patch",
    [
        {"cohort": "org", "lending_limit": 3, "borrowing_limit": 4},
        {"enable_maintenance": True, "description": "new"},
        {"resources": {"gpu": {"guarantee": 60, "maximum": 70, "weight": 5}}},
    ],
)
def test_a_configuration_is_reverted_field_by_field(as_person: Callable[[str], Client], patch: dict[str, Any]) -> None:
    columns = ("guarantee", "maximum", "weight", "cohort", "lending_limit", "description", "enable_maintenance")
    before = Pool.objects.values_list(*columns).get(name="other")
    patch_pool(actor=SYSTEM, name="other", patch=patch)
    assert Pool.objects.values_list(*columns).get(name="other") != before
    root = as_person("root")
    assert _confirm(root, _revert(root, _latest("pool/other"))).status_code == 302
    assert Pool.objects.values_list(*columns).get(name="other") == before


def test_a_change_that_no_form_makes_has_no_revert(as_person: Callable[[str], Client]) -> None:
    patch_pool(actor=SYSTEM, name="other", patch={"default_exec_timeout": "5m", "description": "new"})
    assert _revert(as_person("root"), _latest("pool/other")) == ""
