"""Permissions of every page, allowed and refused, through the real middleware."""

from __future__ import annotations

import dataclasses
import re

import pytest
from django.conf import settings
from django.contrib import admin
from django.test import Client

from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.tokens import CreateToken
from pools.models import AuditEntry
from tests.integration.admin.conftest import ROLES_BY_USER, SignedIn, submit_workflow
from tests.support.world import apply_change, call_as

EVERYBODY = frozenset(ROLES_BY_USER)
PLATFORM = frozenset({"root", "viewer"})
ROOT = frozenset({"root"})
SEE_TEAM = frozenset({"root", "viewer", "chief", "worker"})
DIVIDE_TEAM = frozenset({"root", "chief"})
# address: (users who get 200, the status of all others)
PAGES = {
    "/": (EVERYBODY, 403),
    "/pools": (EVERYBODY, 403),
    "/workflows": (EVERYBODY, 403),
    "/nodes": (EVERYBODY, 403),
    "/nodes/sim/n1": (EVERYBODY - {"nobody"}, 404),
    "/activity/audit": (EVERYBODY, 403),
    "/inbox": (EVERYBODY, 403),
    "/tokens": (EVERYBODY, 403),
    "/tokens/-/create": (EVERYBODY, 403),
    "/tokens?owner=worker": (PLATFORM | {"worker"}, 403),
    "/tokens/-/create?owner=worker": (ROOT | {"worker"}, 403),
    "/password_change/": (EVERYBODY, 403),
    "/mail_change/": (EVERYBODY, 403),
    "/client-login/": (EVERYBODY, 403),
    "/submit": (EVERYBODY - {"viewer", "nobody"}, 403),
    "/users": (PLATFORM, 403),
    "/users/worker": (PLATFORM | {"worker"}, 403),
    "/users/-/create": (ROOT, 403),
    "/users/worker/roles": (ROOT, 403),
    "/users/worker/password": (ROOT, 403),
    "/users/worker/close": (ROOT, 403),
    "/clusters": (PLATFORM, 403),
    "/clusters/sim": (PLATFORM, 403),
    "/clusters/-/create": (ROOT, 403),
    "/clusters/-/connect": (ROOT, 403),
    "/clusters/-/sync": (PLATFORM, 403),
    "/clusters/sim/configuration": (ROOT, 403),
    "/settings": (PLATFORM, 403),
    "/jobs": (PLATFORM, 403),
    "/import": (ROOT, 403),
    "/pools/-/create": (ROOT, 403),
    "/cohorts": (EVERYBODY, 403),
    "/cohorts/-/create": (ROOT, 403),
    "/cohorts/org/configuration": (ROOT, 403),
    "/cohorts/org/delete": (ROOT, 403),
    "/gpu-quotas": (EVERYBODY, 403),
    "/gpu-quotas/-/create": (ROOT, 403),
}
TEAM_PAGES = {
    "/pools/team": SEE_TEAM,
    "/pools/team/subpools/create": DIVIDE_TEAM,
    "/pools/team/subpools/a/resize": DIVIDE_TEAM,
    "/pools/team/subpools/a/delete": DIVIDE_TEAM,
    "/pools/team/subpools/a/recreate": DIVIDE_TEAM,
    "/pools/team/quotas": DIVIDE_TEAM,
    "/pools/team/configuration": ROOT,
    "/pools/team/archive": ROOT,
}


@pytest.mark.parametrize("person", ROLES_BY_USER)
def test_pages_of_the_platform(as_person: SignedIn, person: str) -> None:
    apply_change(PutCohort(name="org", body={}))
    client = as_person(person)
    expected = {address: 200 if person in allowed else refusal for address, (allowed, refusal) in PAGES.items()}
    assert {address: client.get(address).status_code for address in PAGES} == expected


def test_a_refusal_names_the_roles_that_open_the_page(as_person: SignedIn) -> None:
    for address in ("/clusters", "/settings", "/jobs", "/import", "/replay"):
        answers = {person: as_person(person).get(address) for person in ROLES_BY_USER}
        opening = re.search(r"This page needs the role (.*?);", answers["nobody"].content.decode())
        assert opening, address
        roles = re.split(", | or ", opening[1].replace("POOL", "team"))
        named = {person for person, held in ROLES_BY_USER.items() if not {*roles}.isdisjoint(held)}
        opened = {person for person, answer in answers.items() if answer.status_code == 200}
        assert named == opened - {"stranger", "prefix"}, address  # who have a role on another pool


ALIKE = {
    "/users": "/api/auth/user",
    "/users/worker": "/api/auth/user/worker",
    "/users/worker#": "/api/auth/user/worker/identity",
    "/clusters": "/api/configs/backend",
    "/clusters/sim": "/api/configs/backend/sim",
    "/tokens?owner=worker": "/api/auth/user/worker/access_token",
    "/activity/audit": "/api/audit",
    "/pools": "/api/pool",
    "/workflows": "/api/workflow",
    "/clusters/sim/sync": "/api/backend/sim/sync",
}


@pytest.mark.parametrize("person", ROLES_BY_USER)
def test_a_page_and_its_list_of_the_api_are_for_the_same_people(as_person: SignedIn, person: str) -> None:
    client, program = as_person(person), call_as(person)
    for page, address in ALIKE.items():
        assert program("GET", address).status == client.get(page).status_code, address


def test_a_viewer_reads_the_tokens_of_others_and_has_no_button_for_them(as_person: SignedIn) -> None:
    apply_change(CreateToken(owner="worker", name="ci"))
    for person, may_write in (("viewer", False), ("root", True), ("worker", True)):
        page = as_person(person).get("/tokens?owner=worker").content.decode()
        assert ("ci</th>" in page, "Create a token" in page, "Revoke" in page) == (True, may_write, may_write), person


@pytest.mark.parametrize("person", ROLES_BY_USER)
def test_pages_of_a_pool(as_person: SignedIn, person: str) -> None:
    """Without read access to the pool the answer is 404; with it, 403 for a missing role. A change that the state does
    not allow, such as recreating an ACTIVE subpool or archiving a pool with subpools, is explained with 409 to the
    people who may make it."""
    client, refusal = as_person(person), 403 if person in SEE_TEAM else 404
    expected = {
        address: refusal if person not in allowed else 409 if address.endswith(("/recreate", "/archive")) else 200
        for address, allowed in TEAM_PAGES.items()
    }
    assert {address: client.get(address).status_code for address in TEAM_PAGES} == expected


WRITES: list[tuple[str, dict[str, object]]] = [
    ("/pools/team/subpools/create", {"subpool_name": "new", "quota": "1"}),
    ("/pools/team/subpools/a/resize", {"quota": "1"}),
    ("/pools/team/subpools/a/delete", {}),
    ("/pools/team/quotas", {"quota-a": "1"}),
    ("/pools/team/configuration", {"guarantee": "90", "maximum": "-1", "weight": "1"}),
    ("/pools/team/archive", {}),
    ("/pools/-/create", {"name": "fresh", "backend": "sim", "guarantee": "1"}),
    ("/users/-/create", {"username": "fresh"}),
    ("/users/worker/roles", {"roles": ["osmo-admin"]}),
    ("/users/worker/password", {"password": "another-secret-99"}),
    ("/users/worker/close", {}),
    ("/tokens/-/create?owner=root", {"name": "stolen", "days": "7"}),
    ("/clusters/-/create", {"name": "fresh", "namespace": "x"}),
    ("/clusters/sim/configuration", {"namespace": "ns", "offline": "on"}),
    ("/settings", {"minutes": "1"}),
    ("/settings/-/preview", {"minutes": "1"}),
]


@pytest.mark.parametrize("person", ["worker", "stranger", "prefix", "viewer", "nobody"])
def test_writing_without_the_role_changes_nothing(as_person: SignedIn, person: str) -> None:
    client, before = as_person(person), AuditEntry.objects.count()
    for address, typed in WRITES:
        for step in ("preview", "confirm"):
            status = client.post(address, {**typed, "step": step}).status_code
            assert status in {403, 404}, (address, status)
    assert AuditEntry.objects.count() == before


@pytest.mark.parametrize("person", ROLES_BY_USER)
def test_who_sees_and_who_cancels_a_workflow(as_person: SignedIn, person: str) -> None:
    workflow, client = submit_workflow("team--a"), as_person(person)
    sees, may = person in SEE_TEAM, person in {"root", "chief", "worker"}
    page = client.get(f"/workflows/{workflow.name}")
    assert (page.status_code, "Cancel</a>" in page.content.decode()) == (200 if sees else 404, may)
    assert (workflow.name in client.get("/workflows").content.decode()) == sees
    client.post("/workflows/-/cancel", {"name": workflow.name, "step": "confirm"})
    workflow.refresh_from_db()
    assert (workflow.status == "FAILED_CANCELED") == may


def test_the_menu_contains_only_permitted_pages(as_person: SignedIn) -> None:
    for person in ROLES_BY_USER:
        client = as_person(person)
        links = [item["link"] for group in client.get("/").context["menu"] for item in group["items"]]
        seen = {address for address, (allowed, _) in PAGES.items() if person in allowed}  # by the test of all pages
        assert set(links) - seen, person
        assert {client.get(link).status_code for link in set(links) - seen} == {200}, person


def test_the_menu_is_short_and_a_tab_is_its_own_title(as_person: SignedIn) -> None:
    both = ["Work", "Pools", "Nodes", "Usage", "Activity"]
    sections = {"root": ["Home", "Work", "Queue", *both[1:], "Admin"], "worker": ["Home", *both]}
    for person, titles in sections.items():
        menu = as_person(person).get("/").context["menu"]
        assert [each["title"] for each in menu if not each["is_of_person"]] == titles
    for address in ("/submit", "/settings"):
        page = as_person("root").get(address)
        assert page.context["tabs"] and not page.context["crumbs"], address


def test_a_pool_shows_only_permitted_actions(as_person: SignedIn) -> None:
    chief = as_person("chief").get("/pools/team").content.decode()
    worker = as_person("worker").get("/pools/team").content.decode()
    assert "Create a subpool" in chief
    assert "subpools/a/resize" in chief
    assert "configuration/" not in chief
    assert "Create a subpool" not in worker
    assert "subpools/a/resize" not in worker


def test_lists_and_totals_contain_only_visible_pools(as_person: SignedIn) -> None:
    stranger = as_person("stranger").get("/pools")
    assert [tree.pool.name for tree in stranger.context["pool_page"].trees] == ["other"]
    assert stranger.context["totals"].quota == 50
    nobody = as_person("nobody").get("/pools")
    assert nobody.context["pool_page"].trees == []
    assert "No pools that you may see" in nobody.content.decode()
    root = as_person("root").get("/pools")
    assert root.context["totals"].quota == 160


def test_without_a_session_the_answer_is_the_login(pools_and_users: None) -> None:
    for address in (*PAGES, *TEAM_PAGES):
        answer = Client().get(address)
        assert answer.status_code == 302, address
        assert answer.headers["Location"].startswith("/login/?next="), address


def test_a_disabled_account_loses_access_at_once(as_person: SignedIn) -> None:
    worker = as_person("worker")
    assert worker.get("/").status_code == 200
    as_person("root").post("/users/worker/close")
    assert worker.get("/").status_code == 302


def test_only_pages_with_our_permissions_are_registered() -> None:
    from pools.admin.base import PolicyAdmin

    assert all(isinstance(page, PolicyAdmin) for page in admin.site._registry.values())


def test_djangos_own_pages_are_closed(as_person: SignedIn) -> None:
    root = as_person("root")
    for address in (
        "/pools/-/add", "/pools/1/delete", "/pools/1/history", "/users/-/add", "/auth/group/", "/axes/accessattempt/",
        "/django_celery_beat/intervalschedule/", "/activity/audit/-/add",
    ):  # fmt: skip
        assert root.get(address).status_code == 404, address


@pytest.mark.django_db
def test_a_former_address_redirects_everybody_alike_and_keeps_query_and_method() -> None:
    stranger = Client()
    for name in ("team", "nothing"):  # whether the pool exists is not told
        answer = stranger.get(f"/pools/pool/{name}/change/?chart=7d&next=//evil.example")
        assert (answer.status_code, answer["Location"]) == (301, f"/pools/{name}?chart=7d&next=//evil.example")
    sent = stranger.post("/pools/pool/team/subpools/a/resize/", {"quota": "9"})
    assert (sent.status_code, sent["Location"]) == (308, "/pools/team/subpools/a/resize")
    assert stranger.get("/pools/pool//evil.example/change/").status_code == 301
    assert stranger.get("/scheduling/nothing/").status_code == 404


def test_the_menu_links_to_the_documents_where_the_operator_names_them(
    as_person: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = as_person("worker")
    assert "Documents</a>" not in client.get("/").content.decode()
    monkeypatch.setattr(settings, "OSMO", dataclasses.replace(settings.OSMO, docs_url="https://docs.example/osmo"))
    assert '<a href="https://docs.example/osmo">Documents</a>' in client.get("/").content.decode()


def test_names_in_filters_are_completed(as_person: SignedIn) -> None:
    """The names of users and pools, each by its own kind; other texts are not."""
    root = as_person("root")
    for page, fields in {
        "/activity": {"pool": "leaves", "user": "users"},
        "/activity/audit": {"actor": "users", "pool": "pools"},
    }.items():
        text = root.get(page).content.decode()
        assert dict(re.findall(r'<input [^>]*name="(\w+)"[^>]*data-complete="(\w+)"', text)) == fields
