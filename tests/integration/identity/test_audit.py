"""The audit trail over HTTP: what is written, how it reads, who sees which part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from pools.domain.changes.subpools import DeleteSubpool, ResizeSubpool
from pools.models import AuditEntry, User
from tests.support import world
from tests.support.api_client import ApiClient, Callers

AUDIT = "/api/audit"


@pytest.fixture(scope="module")
def installation_once(module_data: Callable[[], Any]) -> None:
    with module_data():
        world.make_pool("team", 100, a=30, b=50)
        world.make_pool("team2", 100, a=10)
        ann = world.make_user("ann", "osmo-team-admin")
        bob = world.make_user("bob", "osmo-team-user", "osmo-team2-user")
        cut = ResizeSubpool(parent="team", subpool_name="b", quota=20)
        world.apply_change(cut, actor=ann, description="a paper is due")
        world.submit_workflow(bob, "team--a")
        world.submit_workflow(bob, "team2--a")


@pytest.fixture
def installation(installation_once: None, db: None) -> None:
    """Two pools whose names begin alike, with subpools and work on each."""


@pytest.mark.usefixtures("installation")
class TestWhoSeesWhat:
    def _objects(self, who: ApiClient) -> set[str]:
        return {entry["object"] for entry in who("GET", f"{AUDIT}?limit=1000").body["entries"]}

    def test_readers_of_the_platform_see_all(self, admin: ApiClient, caller: Callers) -> None:
        for reader in (admin, caller("vera", "osmo-viewer")):
            assert self._objects(reader) >= {"pool/team", "pool/team2--a", "user/ann", "backend/sim", "workflow/job-2"}

    def test_a_pool_admin_sees_the_own_pools_and_not_those_that_begin_alike(self, caller: Callers) -> None:
        seen = self._objects(caller("ann"))
        assert seen >= {"pool/team", "pool/team--a", "pool/team--b", "workflow/job-1", "user/ann"}
        assert not seen & {"pool/team2", "pool/team2--a", "workflow/job-2", "user/bob", "backend/sim"}

    def test_a_user_sees_the_own_actions_and_work(self, caller: Callers) -> None:
        seen = self._objects(caller("bob"))
        assert seen >= {"workflow/job-1", "workflow/job-2", "user/bob"}
        assert not seen & {"pool/team", "pool/team--b", "user/ann"}

    def test_without_a_role_there_is_only_oneself(self, caller: Callers) -> None:
        carol = caller("carol")
        assert carol.token is not None
        assert self._objects(carol) == {"user/carol", f"token/{carol.token.name}"}

    @pytest.mark.parametrize("has_work", [False, True], ids=["the row went", "the row stayed"])
    def test_a_removed_users_name_made_again_is_another_person(
        self, caller: Callers, admin: ApiClient, has_work: bool
    ) -> None:
        """A review read `pool/zsecret--zz1` with its reason so. A user with work keeps the row."""
        zed = world.make_user("zed", "osmo-team-admin")
        cut = ResizeSubpool(parent="team", subpool_name="b", quota=10)
        world.apply_change(cut, actor=zed, description="very private reason")
        if has_work:
            world.submit_workflow(zed, "team--a", name="secret")
        assert self._objects(caller("zed")) >= {"pool/team--b"}
        assert admin("DELETE", "/api/auth/user/zed").status == 200
        assert admin("POST", "/api/auth/user", {"id": "zed"}).status == 200

        again = caller("zed")
        assert self._objects(again) == {"user/zed", f"token/{again.token.name}"}  # type: ignore[union-attr]
        assert "private" not in str(again("GET", AUDIT).body)
        assert again("GET", "/api/workflow?all_pools=True").body["workflows"] == []
        assert again("GET", "/api/workflow/secret-1").status == 404
        zed_row = User.objects.get(username="zed")
        assert zed_row.as_actor().roles == frozenset()
        assert admin("GET", "/api/auth/user/zed").body["created_by"] == "root"

    def test_a_filter_opens_nothing(self, caller: Callers) -> None:
        assert caller("bob")("GET", f"{AUDIT}?object=pool/team--b").body == {"entries": [], "more_entries": False}

    def test_not_without_a_login(self, anonymous: ApiClient) -> None:
        assert anonymous("GET", AUDIT).status == 401


@pytest.mark.usefixtures("installation")
class TestEntry:
    def test_who_what_when_why_and_the_numbers(self, admin: ApiClient) -> None:
        (entry,) = admin("GET", f"{AUDIT}?object=pool/team--b&action=subpool.updated").body["entries"]
        assert entry["actor"] == "ann"
        assert entry["description"] == "a paper is due"
        assert (entry["before"]["quota"], entry["after"]["quota"]) == (50, 20)
        assert (entry["before"]["last_quota"], entry["after"]["last_quota"]) == (50, 20)
        assert entry["sentence"] == "ann cut team--b from 50 to 20: a paper is due"

    def test_sentences_and_times_of_all_entries(self, admin: ApiClient) -> None:
        """Each sentence names its actor; times have a zone in the images, too."""
        for entry in admin("GET", f"{AUDIT}?limit=1000").body["entries"]:
            assert entry["sentence"].startswith(f"{entry['actor']} ") and "None" not in entry["sentence"]
            times = [entry["time"], *(v for v in (entry["after"] or {}).values() if str(v).startswith("2026-"))]
            assert not [time for time in times if not str(time).endswith("Z")]

    def test_a_draining_subpool_counts_for_nothing(self, admin: ApiClient) -> None:
        world.apply_change(DeleteSubpool(parent="team", subpool_name="a"))
        (entry,) = admin("GET", f"{AUDIT}?action=subpool.deleting").body["entries"]
        assert (entry["before"]["quota"], entry["after"]["quota"], entry["after"]["last_quota"]) == (30, 0, 30)

    def test_the_request_id_leads_to_the_request(self, admin: ApiClient) -> None:
        answer = admin("POST", "/api/auth/user", {"id": "dora"})
        (entry,) = admin("GET", f"{AUDIT}?object=user/dora").body["entries"]
        assert entry["request_id"] == answer.headers["X-Request-ID"]

    def test_no_request_id_is_long_or_unreadable(self, admin: ApiClient) -> None:
        for number, given in enumerate(("a" * 129, "two words", "trace-7.a/b")):
            answer = admin("POST", "/api/auth/user", {"id": f"dora{number}"}, x_request_id=given)
            (entry,) = admin("GET", f"{AUDIT}?object=user/dora{number}").body["entries"]
            assert entry["request_id"] == answer.headers["X-Request-ID"]
            assert (entry["request_id"] == given) is (given == "trace-7.a/b"), "one of a client is taken over"

    def test_what_went_around_us_is_signed_by_the_database_role(self, admin: ApiClient) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('osmo.actor', '', false)")
            cursor.execute("UPDATE pools_pool SET last_quota = 21 WHERE name = 'team--b'")
        (entry,) = admin("GET", f"{AUDIT}?object=pool/team--b&limit=1").body["entries"]
        assert entry["actor"].startswith("database:")
        assert entry["sentence"] == f"{entry['actor']} raised team--b from 20 to 21"

    def test_passwords_and_files_stay_out(self, admin: ApiClient) -> None:
        text = str(admin("GET", f"{AUDIT}?limit=1000").body)
        assert "'password'" not in text  # unlike `password_login_at`
        assert not [each for each in User.objects.values_list("password", flat=True) if each and each in text]
        assert "ubuntu" not in text


@pytest.mark.usefixtures("installation")
class TestFilters:
    def _ids(self, admin: ApiClient, query: str) -> list[int]:
        answer = admin("GET", f"{AUDIT}?limit=1000&{query}")
        assert answer.status == 200, answer.body
        return [entry["id"] for entry in answer.body["entries"]]

    def test_exactly_that_and_the_newest_first(self, admin: ApiClient) -> None:
        for field, value in (("object", "workflow/job-1"), ("actor", "bob"), ("action", "subpool.created")):
            expected = AuditEntry.objects.filter(**{field: value}).order_by("-pk").values_list("pk", flat=True)
            assert self._ids(admin, f"{field}={value}") == list(expected) != []
        found = self._ids(admin, "")
        assert found == sorted(found, reverse=True)

    def test_since_and_until_are_included(self, admin: ApiClient) -> None:
        entries = admin("GET", f"{AUDIT}?limit=1000").body["entries"]
        middle = entries[len(entries) // 2]
        since, until = self._ids(admin, f"since={middle['time']}"), self._ids(admin, f"until={middle['time']}")
        assert since == [entry["id"] for entry in entries if entry["time"] >= middle["time"]]
        assert until == [entry["id"] for entry in entries if entry["time"] <= middle["time"]]

    def test_what_can_and_what_cannot_be_read(self, admin: ApiClient) -> None:
        for time in (
            "2026-11-20", "2026-11-20T11:33", "2026-11-20 11:33:25", "2026-11-20T11:33:25.5", "2026-11-20T11:33:25Z",
            "2026-11-20T11:33:25%2B02:00", "2026-11-20T11:33:25+02:00",
        ):  # fmt: skip
            assert admin("GET", f"{AUDIT}?since={time}").status == 200, time
        for query in ("since=%00", "until=2026-02-30", "limit=0", "limit=1001", "offset=-1", "offset=99999999999"):
            answer = admin("GET", f"{AUDIT}?{query}")
            assert (answer.status, answer.body["details"][0]["path"]) == (400, query.partition("=")[0]), query

    def test_pages_do_not_overlap(self, admin: ApiClient) -> None:
        everything = self._ids(admin, "")
        first = admin("GET", f"{AUDIT}?limit=3").body
        second = admin("GET", f"{AUDIT}?limit=3&offset=3").body
        assert first["more_entries"] is True
        assert [entry["id"] for page in (first, second) for entry in page["entries"]] == everything[:6]
        last = admin("GET", f"{AUDIT}?limit=3&offset={len(everything) - 1}").body
        assert (len(last["entries"]), last["more_entries"]) == (1, False)

    def test_a_constant_number_of_queries(self, admin: ApiClient, django_assert_max_num_queries: Any) -> None:
        assert User.objects.count() > 1
        with django_assert_max_num_queries(5):
            admin("GET", f"{AUDIT}?limit=1000")
