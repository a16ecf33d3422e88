"""Every read of the URL configuration answers from one snapshot of the database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.db import DataError, InternalError, connection
from django.test import Client

from osmo_admin.web.middleware import READS_WITHOUT_SNAPSHOT
from pools.database.transactions import one_snapshot, renew_failed_snapshot, sees_uncommitted_changes
from pools.domain.changes.subpools import CreateSubpool, ResizeSubpool
from pools.domain.page_addresses import is_preview_address, is_sign_on_address
from pools.domain.people.roles import SYSTEM
from pools.domain.quota.pool_balance import PoolBalance
from pools.models import AuditEntry, Backend, Cohort, Pool, Reservation, User
from pools.representations import subpool as subpool_representation
from pools.selectors.quotas.pool_balance import read_balance
from pools.services.changes.dry_run import effect_on_pool_tree
from scheduling.selectors.work.workflows import get_full_workflow
from scheduling.services.simulated.reconcile import reconcile_backend
from tests.support import world
from tests.support.addresses import AddressReader, create_example_installation, readable_addresses
from tests.support.threads import run_concurrently
from tests.support.world import apply_change, sign_in

pytestmark = pytest.mark.django_db(transaction=True)

_TRANSACTION = b"SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only'), now()::text"


@dataclass
class Statements:
    """The statements of one request, each with the isolation and the start of its transaction."""

    seen: list[tuple[str, tuple[str, str, str]]] = field(default_factory=list)

    @property
    def transactions(self) -> set[tuple[str, str, str]]:
        return {each for _, each in self.seen}

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record every statement of this thread."""

        def run(execute: Any, sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
            result = execute(sql, params, many, context)
            row = connection.connection.pgconn.exec_(_TRANSACTION)
            self.seen.append((sql, tuple(row.get_value(0, column).decode() for column in range(3))))
            return result

        with connection.execute_wrapper(run):
            yield


def test_every_address_is_read_from_one_snapshot_and_changes_nothing() -> None:
    create_example_installation()
    caller = AddressReader("root")
    tables = (AuditEntry, Pool, Cohort, Reservation)
    before = [list(table.objects.order_by("pk").values()) for table in tables]
    refused, outside, previews = {}, {}, {}
    for address in readable_addresses():
        statements = Statements()
        with statements.recorded():
            answer = caller.get(address)
            if answer.streaming:  # Django's client has closed all others; a second time ends the session
                answer.close()
        if answer.status_code not in {200, 302}:
            refused[address] = answer.status_code
        if is_preview_address(address.partition("?")[0]):
            previews[address] = answer.status_code
            continue  # a dry run, which is rolled back
        if is_sign_on_address(address):
            continue  # the return from a provider writes
        kinds = {each[:2] for each in statements.transactions}
        if address != "/ready" and (kinds - {("repeatable read", "on")} or len(statements.transactions) > 1):
            outside[address] = statements.seen
        assert address not in READS_WITHOUT_SNAPSHOT or address == "/ready" or not statements.seen, address
    assert not outside, f"not in one snapshot: {sorted(outside)}; the first read: {next(iter(outside.values()))}"
    assert refused == REFUSED
    assert len(previews) >= 9
    assert set(previews.values()) == {200}
    assert [list(table.objects.order_by("pk").values()) for table in tables] == before


REFUSED = {
    "/pools/pool/team/change/": 301,  # an address of a former version
    "/sign-on/none/": 404,
    "/sign-on/none/link/": 404,
    "/sign-on/none/callback/": 404,
    "/pools/team/archive": 409,  # it still has subpools
    "/ready": 503,  # no worker runs in this test
    "/api/nothing": 404,
    "/api/configs/service": 400,
    "/webhooks/pod": 405,
    "/webhooks/pod/prod": 405,
    "/webhooks/pod/prod/guessed": 405,
    "/webhooks/gpu_quota": 405,
    "/webhooks/gpu_quota/prod": 405,
    "/webhooks/gpu_quota/prod/guessed": 405,
    "/webhooks/podgroup": 405,
    "/webhooks/podgroup/prod": 405,
    "/webhooks/podgroup/prod/guessed": 405,
}
"""The examples without an answer: an object that has no page of its own, or an address for changes only."""


class TestAPoolThatChangesBetweenTwoStatements:
    """The reproduction: a quota changes between the reading of the numbers and the reading of the rows."""

    @staticmethod
    def _read_while_a_quota_changes(monkeypatch: pytest.MonkeyPatch) -> tuple[tuple[int, int], tuple[int, int]]:
        """The quota and the version of one subpool: as they were, and as the answer has them."""
        world.make_pool("team", 100, a=8)
        caller = sign_in(world.admin_actor().username)
        before = Pool.objects.get(name="team--a")

        def read_and_let_another_write(root: Pool) -> PoolBalance:
            balance = read_balance(root)
            resize = lambda: apply_change(ResizeSubpool(parent="team", subpool_name="a", quota=5))  # noqa: E731
            (resized,) = run_concurrently([resize])
            assert not isinstance(resized, Exception)
            return balance

        monkeypatch.setattr(subpool_representation, "read_balance", read_and_let_another_write)
        answer = caller.get("/api/configs/pool/team/subpool")
        assert answer.status_code == 200
        (row,) = (each for each in answer.json()["subpools"] if each["subpool_name"] == "a")
        return (8, before.version), (row["quota"], row["version"])

    def test_the_answer_is_the_state_before(self, monkeypatch: pytest.MonkeyPatch) -> None:
        before, answered = self._read_while_a_quota_changes(monkeypatch)
        assert answered == before

    def test_without_the_snapshot_the_old_quota_has_the_new_version(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("osmo_admin.web.middleware.one_snapshot", nullcontext)
        before, answered = self._read_while_a_quota_changes(monkeypatch)
        assert answered == (before[0], before[1] + 1)


class TestAWorkflowThatStartsBetweenTwoStatements:
    """The reproduction: a page showed PENDING together with "system started it just now"."""

    @staticmethod
    def _read_while_it_starts(monkeypatch: pytest.MonkeyPatch) -> tuple[str, set[str]]:
        world.make_pool("team", 100)
        admin = world.admin_actor()
        caller = sign_in(admin.username)
        name = world.submit_workflow(admin, "team", 1, name="soon").name

        def read_and_let_it_start(*arguments: Any, **options: Any) -> Any:
            workflow = get_full_workflow(*arguments, **options)
            backend = workflow.root_pool.backend_id
            assert backend is not None
            (started,) = run_concurrently([lambda: reconcile_backend(backend)])
            assert not isinstance(started, Exception)
            return workflow

        monkeypatch.setattr("scheduling.admin.workflows.get_full_workflow", read_and_let_it_start)
        page = caller.get(f"/workflows/{name}")
        return page.context["workflow"].status, {entry.action for entry in page.context["entries"]}

    def test_the_page_is_the_state_before(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self._read_while_it_starts(monkeypatch) == ("PENDING", {"workflow.submitted"})

    def test_without_the_snapshot_the_page_is_torn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("osmo_admin.web.middleware.one_snapshot", nullcontext)
        assert self._read_while_it_starts(monkeypatch) == ("PENDING", {"workflow.submitted", "workflow.started"})


class TestLogin:
    def test_a_session_ended_by_a_new_password_is_deleted_after_the_read(self) -> None:
        user = User.objects.create_user("dora", password="correct-horse-battery")
        browser = sign_in(user)
        user.set_password("another-correct-horse")
        user.save()
        assert browser.get("/").status_code == 302
        assert not Session.objects.exists()

    def test_a_session_of_a_former_secret_key_is_replaced_after_the_read(self, settings: Any) -> None:
        browser = Client()
        browser.force_login(User.objects.create_user("dora", password="correct-horse-battery"))
        (before,) = Session.objects.values_list("pk", flat=True)
        settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "a" * 60
        assert browser.get("/").status_code == 200
        (after,) = Session.objects.values_list("pk", flat=True)
        assert after != before
        settings.SECRET_KEY_FALLBACKS = []
        assert browser.get("/").status_code == 200


class TestConnections:
    def test_a_kept_connection_that_died_is_replaced(self) -> None:
        with one_snapshot(), connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            (dead,) = cursor.fetchone()
        run_concurrently([lambda: Pool.objects.raw("SELECT 1 AS id, pg_terminate_backend(%s)", [dead])[0]])
        with one_snapshot():
            assert not Pool.objects.filter(name="team").exists()

    def test_a_read_leaves_no_transaction_open(self) -> None:
        with one_snapshot():
            assert not sees_uncommitted_changes()
            Pool.objects.count()
        assert connection.get_autocommit()
        Backend.objects.create(name="after", namespace="ns")

    def test_a_failed_statement_leaves_a_snapshot_for_its_message(self) -> None:
        with one_snapshot():
            with pytest.raises(DataError):
                list(Pool.objects.extra(where=["1/0 = 1"]))
            renew_failed_snapshot()
            Pool.objects.count()
            with pytest.raises(InternalError, match="read-only"):
                Backend.objects.create(name="after", namespace="ns")


def test_the_state_before_a_dry_run_is_read_from_one_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    world.make_pool("team", 100, a=8, b=8, c=8)
    others = [lambda: apply_change(CreateSubpool(parent="team", subpool_name="late", quota=5))]

    def read_and_let_another_write(root: Pool) -> PoolBalance:
        balance = read_balance(root)
        while others:
            (created,) = run_concurrently([others.pop()])
            assert not isinstance(created, Exception)
        return balance

    monkeypatch.setattr(subpool_representation, "read_balance", read_and_let_another_write)
    change = lambda: apply_change(ResizeSubpool(parent="team", subpool_name="c", quota=9))  # noqa: E731
    effect = effect_on_pool_tree("team", change, actor=SYSTEM)
    assert [each["subpool_name"] for each in effect["before"]["subpools"]] == ["a", "b", "c"]
    assert [each["subpool_name"] for each in effect["after"]["subpools"]] == ["a", "b", "c", "late"]
