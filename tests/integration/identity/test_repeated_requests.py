"""An `Idempotency-Key` belongs to one credential: its stored answer is for that one, while it may still ask."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from pools.domain.changes.users import DeleteUser, GrantRole, RevokeRole
from pools.models import AccessToken, IdempotencyRecord, Pool, User
from pools.services.changes.idempotency import record_retention
from scheduling.models import Workflow
from scheduling.services.workflows import submission
from tests.support import world
from tests.support.api_client import ApiClient, Callers
from tests.support.world import apply_change, make_user, sign_in

TOKEN = "/api/auth/access_token/full"
USERS = "/api/auth/user"


@pytest.fixture
def root(caller: Callers) -> ApiClient:
    """A platform admin who is a viewer too, with a whole token."""
    return caller("root", "osmo-admin", "osmo-viewer")


@pytest.fixture
def viewer_only(root: ApiClient, caller: Callers) -> ApiClient:
    """Another token of the same user, which may only read."""
    return caller("root", token_roles=("osmo-viewer",))


class TestCredential:
    """Reproductions of a review: a key was the user's, and permission was asked for after it."""

    def test_a_lesser_token_gets_no_secret(self, root: ApiClient, viewer_only: ApiClient) -> None:
        first = root("POST", TOKEN, idempotency_key="deploy-1")
        assert len(first.body) == 43
        again = viewer_only("POST", TOKEN, idempotency_key="deploy-1")
        assert again.status != 200
        assert first.body not in str(again.body)

    def test_a_lesser_token_gets_no_answer_of_a_write(self, root: ApiClient, viewer_only: ApiClient) -> None:
        assert root("POST", USERS, {"id": "bob"}, idempotency_key="deploy-1").status == 200
        assert viewer_only("POST", USERS, {"id": "bob"}, idempotency_key="deploy-1").status == 403

    def test_the_login_is_another_credential(self, root: ApiClient, viewer_only: ApiClient) -> None:
        assert root("POST", USERS, {"id": "bob"}, idempotency_key="k").status == 200
        answer = sign_in("root").post(USERS, {"id": "bob"}, "application/json", headers={"Idempotency-Key": "k"})
        assert answer.status_code == 409  # it is a request of its own, and bob exists
        assert "Idempotent-Replayed" not in answer.headers

    def test_a_revoked_role_ends_the_repetitions(self, root: ApiClient) -> None:
        make_user("second", "osmo-admin")
        assert root("POST", USERS, {"id": "bob"}, idempotency_key="k").status == 200
        apply_change(RevokeRole(username="root", role_name="osmo-admin"))
        assert root("POST", USERS, {"id": "bob"}, idempotency_key="k").status == 403
        apply_change(GrantRole(username="root", role_name="osmo-admin"))
        again = root("POST", USERS, {"id": "bob"}, idempotency_key="k")
        assert (again.status, again.headers["Idempotent-Replayed"]) == (200, "true")

    def test_a_removed_user_made_again_is_another_person(self, caller: Callers) -> None:
        world.make_pool("team")
        bob = caller("bob", "osmo-team-user")
        bob("POST", "/api/pool/team/workflow", {"file": world.workflow_file()})  # so that the row of bob stays
        user_id = User.objects.get(username="bob").pk
        path, body = "/api/profile/settings", {"pool": "team"}
        assert bob("POST", path, body, idempotency_key="k").status == 200
        apply_change(DeleteUser(username="bob"))
        assert not IdempotencyRecord.objects.filter(user_id=user_id).exists()


class TestEveryAddress:
    """Each POST that stores its answer asks for the permission of the request before it repeats the answer."""

    def _calls(self) -> Iterator[tuple[str, str, Any, tuple[str, ...]]]:
        yield "boss", "/api/configs/pool/team/subpool", {"subpool_name": "a", "quota": 5}, ("osmo-team-admin",)
        yield "boss", "/api/pool/team/workflow", {"file": world.workflow_file()}, ("osmo-team-admin",)
        many = {"workflows": [{"file": world.workflow_file()}]}
        yield "boss", "/api/pool/team/workflows", many, ("osmo-team-admin",)
        yield "boss", "/api/workflow/theirs-1/cancel", None, ("osmo-team-admin",)
        yield "boss", "/api/workflow/theirs-1/tag?add=x", None, ("osmo-team-admin",)
        worker = {"id": "w", "workload": "x", "request": {"tflops": "1", "vram": "1Gi"}}
        yield "root", "/api/gpu_quota/ns-1/allocation", worker, ("osmo-admin",)
        yield "root", "/api/gpu_quota/ns-1/allocation/w/commit", None, ("osmo-admin",)
        yield "root", "/api/auth/user", {"id": "new"}, ("osmo-admin",)
        yield "root", "/api/auth/user/boss/roles", {"role_name": "osmo-viewer"}, ("osmo-admin",)
        yield "root", "/api/auth/user/boss/access_token/robot", None, ("osmo-admin",)
        yield "root", "/api/backend/sim/settle", None, ("osmo-admin",)
        yield "root", "/api/replay", {"since": "2026-01-01T00:00:00", "until": "2026-01-02T00:00:00"}, ("osmo-admin",)

    def test_without_its_role_the_answer_is_that_of_a_first_request(self, caller: Callers) -> None:
        world.make_pool("team")
        theirs = world.make_user("theirs", "osmo-team-user")
        world.submit_workflow(theirs, "team", name="theirs")
        make_user("other-root", "osmo-admin")
        people = {"boss": caller("boss", "osmo-team-admin"), "root": caller("root", "osmo-admin")}
        for name, path, body, roles in self._calls():
            who = people[name]
            first = who("POST", path, body, idempotency_key=f"k{path}")
            assert first.status == (202 if path == "/api/replay" else 200), (path, first.body)
            again = who("POST", path, body, idempotency_key=f"k{path}")
            is_secret = "access_token" in path
            assert again.status == (409 if is_secret else first.status), (path, again.body)
            assert is_secret or (again.body, again.headers["Idempotent-Replayed"]) == (first.body, "true"), path
            for role in roles:
                apply_change(RevokeRole(username=name, role_name=role))
            refused = who("POST", path, body, idempotency_key=f"k{path}")
            fresh = who("POST", path, body)
            assert refused.status in {403, 404}, (path, refused.body)
            assert (refused.status, refused.body["message"]) == (fresh.status, fresh.body["message"]), path
            for role in roles:
                apply_change(GrantRole(username=name, role_name=role))


class TestSecrets:
    def test_a_repetition_says_that_the_token_exists(self, root: ApiClient) -> None:
        first = root("POST", TOKEN, idempotency_key="k")
        again = root("POST", TOKEN, idempotency_key="k")
        assert (again.status, again.body["details"][0]["code"]) == (409, "secret_shown_once")
        assert "The token full of root was created" in again.body["message"]
        assert first.body not in str(again.body)
        assert "Retry-After" not in again.headers  # the same request gives the same answer
        assert AccessToken.objects.filter(name="full").count() == 1

    def test_nothing_stored_leads_to_the_secret(self, root: ApiClient) -> None:
        root("POST", TOKEN, idempotency_key="k")
        assert IdempotencyRecord.objects.get().response == [None, None]


class TestLimits:
    @pytest.fixture
    def limit(self, settings: Any) -> Callable[..., None]:
        def change(**limits: int) -> None:
            settings.OSMO = dataclasses.replace(settings.OSMO, **limits)

        return change

    def test_the_number_of_stored_answers(self, root: ApiClient, limit: Callable[..., None]) -> None:
        limit(max_stored_answers=2)
        for number in range(2):
            assert root("POST", USERS, {"id": f"u{number}"}, idempotency_key=f"k{number}").status == 200
        refused = root("POST", USERS, {"id": "u2"}, idempotency_key="k2")
        assert (refused.status, refused.body["error_code"]) == (429, "USER")
        assert "2 answers" in refused.body["message"]
        assert "leave the key out" in refused.body["message"]
        assert 0 < int(refused.headers["Retry-After"]) <= 86_400
        assert not User.objects.filter(username="u2").exists()
        assert root("POST", USERS, {"id": "u1"}, idempotency_key="k1").status == 200  # a repetition needs no room
        assert root("POST", USERS, {"id": "u2"}).status == 200

    def test_the_bytes_of_stored_answers(self, root: ApiClient, limit: Callable[..., None]) -> None:
        root("POST", USERS, {"id": "u0"}, idempotency_key="k0")
        size = IdempotencyRecord.objects.get().size
        limit(max_stored_bytes=2 * size - 1)
        assert root("POST", USERS, {"id": "u1"}, idempotency_key="k1").status == 429
        limit(max_stored_bytes=2 * size)
        assert root("POST", USERS, {"id": "u1"}, idempotency_key="k1").status == 200

    def test_the_size_of_one_answer(self, root: ApiClient, limit: Callable[..., None]) -> None:
        limit(max_answer_bytes=20)
        refused = root("POST", USERS, {"id": "u0"}, idempotency_key="k0")
        assert (refused.status, refused.body["details"][0]["code"]) == (400, "answer_too_large")
        assert not User.objects.filter(username="u0").exists()
        assert not IdempotencyRecord.objects.exists()

    def test_requests_that_write_nothing_store_nothing(self, root: ApiClient) -> None:
        world.make_pool("team", 10)
        file = {"file": world.workflow_file()}
        questions = [
            ("/api/simulate", {"live": True, "changes": []}),
            ("/api/podgroup/validate", {"kind": "PodGroup", "spec": {"minMember": 1}}),
            ("/api/podgroup/plan", {"podgroup": {"kind": "PodGroup", "spec": {"minMember": 1}}}),
            ("/api/pool/team/workflow?dry_run=True", file),
            ("/api/pool/team/workflow?validation_only=True&dry_run=True", file),
            ("/api/pool/team/workflows?dry_run=True", {"workflows": [file]}),
            ("/api/configs/pool/team/subpool?dry_run=True", {"subpool_name": "a", "quota": 1}),
            ("/api/gpu_quota/ns/allocation?dry_run=True", {"id": "w", "workload": "x", "request": {"tflops": "1"}}),
        ]
        for path, body in questions:
            for _ in range(2):
                answer = root("POST", path, body, idempotency_key="k")
                assert answer.status == 200, (path, answer.body)
        assert not IdempotencyRecord.objects.exists()
        assert not Workflow.objects.exists()
        assert Pool.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_file_is_read_before_the_transaction_and_only_for_the_first_request(
    root: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow template holds no transaction, and no row of a key that others wait for."""
    world.make_pool("team", 8)
    in_transaction = []
    parse = submission.parse

    def parse_and_note(*arguments: Any, **more: Any) -> Any:
        in_transaction.append(connection.in_atomic_block)
        return parse(*arguments, **more)

    monkeypatch.setattr(submission, "parse", parse_and_note)
    body = {"file": world.workflow_file("train")}
    first, again = (root("POST", "/api/pool/team/workflow", body, idempotency_key="k") for _ in range(2))
    assert (first.status, again.status) == (200, 200)
    assert first.body == again.body
    assert in_transaction == [False]
    assert Workflow.objects.count() == 1


def test_an_old_answer_is_forgotten_and_the_request_is_made_anew(root: ApiClient) -> None:
    world.make_pool("team", 8)
    body = {"file": world.workflow_file("train")}
    root("POST", "/api/pool/team/workflow", body, idempotency_key="k")
    IdempotencyRecord.objects.update(created_at=timezone.now() - record_retention() - timedelta(seconds=1))
    assert root("POST", "/api/pool/team/workflow", body, idempotency_key="k").status == 200
    assert Workflow.objects.count() == 2
