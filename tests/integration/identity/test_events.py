"""Live changes: in order of commit, nothing passed over, nobody else's, and never for ever."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from pools.api import events
from pools.database import open_transactions
from pools.domain.changes.subpools import CreateSubpool
from pools.domain.changes.tokens import CreateToken
from pools.domain.changes.users import DeleteUser, GrantRole, RevokeRole, SetPassword
from pools.domain.errors import DomainError
from pools.domain.people.roles import SYSTEM
from pools.models import AccessToken, AuditEntry, SignOnIdentity, User
from pools.security.tokens import issue_jwt
from pools.selectors.audit_trail import Login, StreamPosition, parse_position, read_audit_readers, stream_horizon
from pools.selectors.submission_path import find_valid_token
from tests.support import world
from tests.support.threads import held_elsewhere
from tests.support.world import apply_change, make_user, sign_in

pytestmark = pytest.mark.django_db(transaction=True)


class Stream:
    """An open stream, read event by event."""

    def __init__(self, username: str, last: str | None = None) -> None:
        token = apply_change(CreateToken(owner=username, name=f"t{AccessToken.objects.count()}"))[0]
        headers = {"Authorization": f"Bearer {issue_jwt(token)[0]}"} | ({"Last-Event-ID": last} if last else {})
        self._begin(Client().get("/api/events", headers=headers))

    @classmethod
    def of_browser(cls, client: Client) -> Stream:
        """The stream of a browser that is signed in."""
        stream = cls.__new__(cls)
        stream._begin(client.get("/api/events"))
        return stream

    def _begin(self, response: Any) -> None:
        assert response.status_code == 200
        self.response = response
        self.chunks: Iterator[bytes] = iter(response.streaming_content)
        self.opening = next(self.chunks).decode()
        self.last = _field(self.opening, "id")

    def events(self, until: str | None = None) -> list[dict[str, Any]]:
        """What comes up to the event about that object; None: until the stream ends."""
        found: list[dict[str, Any]] = []
        for chunk in self.chunks:
            text = chunk.decode()
            self.last = _field(text, "id") or self.last
            if data := _field(text, "data"):
                found.append({"at": int(self.last), **json.loads(data)})
                if found[-1]["object"] == until:
                    self.close()
                    return found
        assert until is None, f"{until} did not come, but {[event['object'] for event in found]}"
        return found

    def close(self) -> None:
        """As a client that goes away."""
        self.response.close()


def _field(text: str, name: str) -> str:
    return next((line.partition(": ")[2] for line in text.split("\n") if line.startswith(f"{name}: ")), "")


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transaction ids are the whole server's, and a transaction that keeps the data of a module in another process may
    be open for a minute: those of other databases are left out at once. Tests wait for what must come, and only where
    nothing may come they make the stream short."""
    monkeypatch.setattr(open_transactions, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(events, "STREAM_SECONDS", 60.0)
    monkeypatch.setattr(events, "POLL_SECONDS", 0.02)


@pytest.fixture
def admin(ledger: None) -> str:
    """An osmo-admin's name."""
    make_user("root", "osmo-admin")
    return "root"


def _users(found: list[dict[str, Any]]) -> list[str]:
    return [event["object"] for event in found if event["action"] == "user.created"]


class TestStream:
    def test_it_ends_by_itself(self, admin: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(events, "STREAM_SECONDS", 0.2)
        assert Stream(admin).events() == []

    def test_it_begins_now(self, admin: str) -> None:
        stream = Stream(admin)
        make_user("bob")
        found = stream.events("user/bob")
        assert _users(found) == ["user/bob"]
        assert found[0]["sentence"] == "system created user bob"
        assert found[0]["time"].endswith("Z")
        assert _field(stream.opening, "retry").isdigit()
        assert stream.response.headers["Content-Type"] == "text/event-stream"

    def test_ids_grow(self, admin: str) -> None:
        stream = Stream(admin)
        for name in ("b", "c", "d"):
            make_user(name, "osmo-viewer")
        places = [event["at"] for event in stream.events("user/d")]
        assert places == sorted(set(places))
        assert len(places) == 5

    def test_it_resumes_behind_the_last_event(self, admin: str) -> None:
        first = Stream(admin)
        make_user("bob")
        first.events("user/bob")
        make_user("carol")
        again = Stream(admin, first.last)
        make_user("dora")
        assert _users(again.events("user/dora")) == ["user/carol", "user/dora"]

    def test_it_resumes_where_nothing_has_happened_since(self, admin: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """The place of a stream that was quiet is the next transaction, which may not have begun."""
        token = apply_change(CreateToken(owner=admin, name="quiet"))[0]
        here = {"Authorization": f"Bearer {issue_jwt(token)[0]}"}
        first, again = Stream.__new__(Stream), Stream.__new__(Stream)
        first._begin(Client().get("/api/events", headers=here))
        first.close()
        again._begin(Client().get("/api/events", headers=here | {"Last-Event-ID": first.last}))
        make_user("bob")
        assert _users(again.events("user/bob")) == ["user/bob"]

    def test_it_resumes_behind_an_entry_of_the_audit_list(self, admin: str) -> None:
        """A browser names it in the address. Zero is from the beginning."""
        make_user("bob")
        entry = AuditEntry.objects.get(action="user.created", object="user/bob")
        make_user("carol")
        assert _users(Stream(admin, str(entry.pk)).events("user/carol")) == ["user/carol"]
        answer = _get(admin, {"last_event_id": str(entry.pk)}, {})
        assert b"user/carol" in next(chunk for chunk in answer.streaming_content if b"user/" in chunk)
        answer.close()
        assert _users(Stream(admin, "0").events("user/root")) == ["user/root"]

    def test_a_place_that_is_none_is_refused(self, admin: str) -> None:
        for last in ("abc", "-1", "1.5", "9" * 40, "١", str(2**63), "9" * 11):
            header = {"Last-Event-ID": last.encode("utf-8").decode("latin-1")}
            for query, headers in (({}, header), ({"last_event_id": last}, {})):
                answer = _get(admin, query, headers)
                assert answer.status_code == 400
                (fault,) = answer.json()["details"]
                assert "Send the id of an event, or of an entry of the audit list" in fault["message"]
                assert last not in fault["message"]
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
            ahead = cursor.fetchone()[0] + 1_000_000
        answer = _get(admin, {"last_event_id": str(StreamPosition(ahead, 1))}, {})
        assert answer.status_code == 400
        assert "from before the restore of a backup" in answer.content.decode()

    def test_more_than_a_batch(self, admin: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(events, "BATCH_SIZE", 2)
        stream = Stream(admin)
        names = [f"u{number}" for number in range(7)]
        for name in names:
            make_user(name)
        assert _users(stream.events("user/u6")) == [f"user/{name}" for name in names]

    def test_more_than_a_stream_may_send(self, admin: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """The server keeps what a client does not read, so a stream ends after some bytes; its client comes back."""
        monkeypatch.setattr(events, "STREAM_BYTES", 1)
        names = [f"u{number}" for number in range(4)]
        first = Stream(admin)
        first.close()
        for name in names:
            make_user(name)
        seen: list[str] = []
        last = first.last
        while len(seen) < len(names):  # events of the tokens may be between, where another test held them back
            stream = Stream(admin, last)
            found = stream.events()
            assert len(found) == 1
            seen, last = [*seen, *_users(found)], stream.last
        assert seen == [f"user/{name}" for name in names]

    def test_the_end_asks_the_client_back_soon(self, admin: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """After a broken connection the longer pause holds, so that not all call a server that starts at once."""
        monkeypatch.setattr(events, "STREAM_SECONDS", 0.0)
        stream = Stream(admin)
        end = b"".join(stream.chunks).decode()
        assert (_field(stream.opening, "retry"), _field(end, "retry")) == ("1000", "200")

    def test_streams_that_begin_together_end_one_by_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(events, "STREAM_SECONDS", 30.0)
        lengths = sorted(events._stream_seconds() for _ in range(300))
        assert 20 <= lengths[0] < 22 and 38 < lengths[-1] <= 40
        assert max(later - earlier for earlier, later in itertools.pairwise(lengths)) < 2

    def test_a_quiet_stream_says_where_it_is(self, admin: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.1)
        monkeypatch.setattr(events, "STREAM_SECONDS", 0.5)
        beats = [chunk for chunk in Stream(admin).chunks if chunk.startswith(b": ")]
        assert len(beats) >= 2
        assert all(b"\nid: " in beat for beat in beats)


@contextmanager
def uncommitted_user(name: str) -> Iterator[None]:
    """A user whose transaction ends with the block."""
    with transaction.atomic():
        make_user(name)
        yield


class TestLateCommit:
    """An entry's id is given out long before its transaction commits."""

    def test_nothing_is_passed_over(self, admin: str, monkeypatch: pytest.MonkeyPatch) -> None:
        first = Stream(admin)
        first.close()
        with held_elsewhere(uncommitted_user("slow")) as commit:
            make_user("quick")
            slow_id = _id_in_progress()
            monkeypatch.setattr(events, "STREAM_SECONDS", 0.3)
            short = Stream(admin, first.last)
            early = short.events()
            monkeypatch.setattr(events, "STREAM_SECONDS", 60.0)
            assert "user/quick" not in _users(early)  # it waits for slow, which may still come to stand before it
            commit()
            later = Stream(admin, short.last).events("user/quick")
        # Where the first stream was held back by another test's transaction, root is named in one of the two as well.
        assert [user for user in _users(early + later) if user != "user/root"] == ["user/slow", "user/quick"]
        assert slow_id < AuditEntry.objects.get(action="user.created", object="user/quick").pk


def _id_in_progress() -> int:
    """The last id given out before the quick one, whose row nobody else can see yet."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT min(id) - 1 FROM pools_auditentry WHERE object = 'user/quick'")
        return int(cursor.fetchone()[0])


class TestWhoSeesWhat:
    def test_only_what_the_audit_list_would_show(self, admin: str) -> None:
        world.make_pool("team", 100)
        world.make_pool("team2", 100)
        ann = world.make_user("ann", "osmo-team-admin")
        stream = Stream(ann.username)
        world.make_user("bob", "osmo-team2-user")
        from pools.services.configuration.subpools import create_subpool

        create_subpool(CreateSubpool(parent="team2", subpool_name="a", quota=1), actor=SYSTEM)
        create_subpool(CreateSubpool(parent="team", subpool_name="a", quota=1), actor=SYSTEM)
        assert [event["object"] for event in stream.events("pool/team--a")] == ["pool/team--a"]

    def test_a_role_that_is_given_or_taken_meanwhile_counts_from_then(self, admin: str) -> None:
        make_user("bob")
        first, stream = Stream("bob"), Stream("bob")
        apply_change(GrantRole(username="bob", role_name="osmo-viewer"))
        make_user("dora")
        assert _users(first.events("user/dora")) == ["user/dora"]
        apply_change(RevokeRole(username="bob", role_name="osmo-viewer"))
        make_user("carol")
        apply_change(CreateToken(owner="bob", name="own"))
        seen = [event["object"] for event in stream.events("token/own")]
        assert "user/carol" not in seen

    def test_it_ends_with_the_token_and_with_the_login(self, admin: str) -> None:
        make_user("bob", "osmo-viewer")
        of_bob, stream = Stream("bob"), Stream(admin)
        apply_change(DeleteUser(username="bob"))
        AccessToken.objects.get(owner__username=admin).delete()
        make_user("carol")
        assert (of_bob.events(), stream.events()) == ([], [])
        assert Client().get("/api/events").status_code == 401

    @pytest.mark.parametrize("end", ["logout", "expiry", "password"])
    def test_it_ends_with_the_session(self, admin: str, end: str) -> None:
        browser, other = sign_in(admin), sign_in(admin)
        stream, kept = Stream.of_browser(browser), Stream.of_browser(other)
        if end == "logout":
            browser.logout()
        elif end == "expiry":
            key = browser.session.session_key
            Session.objects.filter(session_key=key).update(expire_date=timezone.now() - timedelta(seconds=1))
        else:
            apply_change(SetPassword(username=admin, password="another horse 11"))
        make_user("carol")
        assert stream.events() == []
        of_other = kept.events(None if end == "password" else "user/carol")
        assert _users(of_other) == ([] if end == "password" else ["user/carol"])


class TestManyReaders:
    """All streams of a process read together, and each reader gets what the audit list would show."""

    @staticmethod
    def _people() -> dict[str, Login]:
        world.make_pool("team", 100)
        world.make_pool("team2", 100)
        roles = {
            "viewer": ["osmo-viewer"], "ann": ["osmo-team-admin"], "bob": ["osmo-team-user", "osmo-team2-admin"],
            "carol": [],
        }  # fmt: skip
        for name, held in roles.items():
            make_user(name, *held)
        logins = {row.username: Login(row.pk) for row in User.objects.all()}
        bob = User.objects.get(username="bob")
        for name, limit in {"less": ["osmo-team-user"], "more": ["osmo-team-admin", "osmo-team2-admin"]}.items():
            token = AccessToken.objects.create(
                owner=bob, name=name, digest=name, roles=limit, expires_at=timezone.now() + timedelta(days=1)
            )
            logins[name] = Login(bob.pk, token.pk)
        return logins

    def test_each_sees_what_the_audit_list_has(self, admin: str) -> None:
        from pools.services.configuration.subpools import create_subpool

        make_user("carol")
        apply_change(DeleteUser(username="carol"))  # another person had the name
        logins = self._people()
        for name, login in list(logins.items()):
            actor = User.objects.get(pk=login.user).as_actor()
            for parent in ("team", "team2"):
                with suppress(DomainError):
                    create_subpool(CreateSubpool(parent=parent, subpool_name=f"by-{name}", quota=1), actor=actor)
        apply_change(GrantRole(username="carol", role_name="osmo-team-user"))
        readers = read_audit_readers(logins.values(), timezone.now())
        everything = list(AuditEntry.objects.all())
        seen = {}
        for name, login in logins.items():
            reader = readers[login]
            seen[name] = {row.pk for row in everything if reader.may_see(row)}
            token = AccessToken.objects.filter(pk=login.token).first() if login.token else None
            actor = User.objects.get(pk=login.user).as_actor(token=token)
            assert seen[name] == set(AuditEntry.objects.visible_to(actor).values_list("pk", flat=True)), name
        assert seen["viewer"] > seen["ann"] > set() and seen["bob"] > seen["less"] and seen["carol"]

    def test_a_login_that_has_ended_reads_nothing(self, admin: str) -> None:
        logins = self._people()
        User.objects.filter(username="ann").update(is_active=False)
        AccessToken.objects.filter(name="more").update(expires_at=timezone.now())
        apply_change(DeleteUser(username="viewer"))
        readers = read_audit_readers(logins.values(), timezone.now())
        assert {name for name, login in logins.items() if login not in readers} == {"ann", "more", "viewer"}

    def test_a_token_ends_with_the_sign_on_of_its_client(self, admin: str) -> None:
        owner = User.objects.get(username=admin)
        now = timezone.now()
        for name, valid_until in {"ended": now - timedelta(days=1), "valid": now + timedelta(days=1)}.items():
            identity = SignOnIdentity.objects.create(
                user=owner, provider=name, issuer=name, subject=name, valid_until=valid_until
            )
            AccessToken.objects.create(
                owner=owner, name=name, digest=name, identity=identity, expires_at=now + timedelta(days=1)
            )
        tokens = {name: AccessToken.objects.get(name=name).pk for name in ("ended", "valid")}
        logins = {name: Login(owner.pk, token) for name, token in tokens.items()}
        readers = read_audit_readers(logins.values(), timezone.now())
        assert [name for name, login in logins.items() if login in readers] == ["valid"]
        for name, login in logins.items():
            assert (find_valid_token(tokens[name]) is not None) == (login in readers), name

    def test_many_readers_cost_as_many_queries_as_one(self, admin: str, monkeypatch: pytest.MonkeyPatch) -> None:
        logins = self._people()
        counts = []
        for chosen in ([logins["viewer"]], [logins["viewer"], *logins.values()]):
            start = stream_horizon()
            make_user(f"new{len(counts)}")
            present = events._Logins()
            for login in chosen:
                present.add(login, 1)
            monkeypatch.setattr(events, "_logins", present)
            latest = events._Round(StreamPosition(2**62), start)
            with CaptureQueriesContext(connection) as queries:
                batches = [latest.read(login, start, None) for login in chosen]
            counts.append(len(queries))
            assert batches[0]
        assert counts[1] <= counts[0] + 2  # tokens and the ids of pools


class TestCrowd:
    def test_beyond_the_allowed_streams_one_gets_what_there_is_and_comes_back(
        self, admin: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(events, "_slots", threading.BoundedSemaphore(1))
        lasting = Stream(admin)
        make_user("bob")
        deadline = time.monotonic() + 30
        seen: list[str] = []
        while "user/root" not in seen and time.monotonic() < deadline:
            crowded = Stream(admin, "0")
            seen = _users(crowded.events())
        assert "user/root" in seen
        assert _field(crowded.opening, "retry") == str(events.RETRY_WHEN_CROWDED_MS)
        assert _field(crowded.opening, "event") == "crowded"
        lasting.close()
        free = Stream(admin)
        assert _field(free.opening, "retry") == str(events.RETRY_MS)
        assert _field(free.opening, "event") == ""
        free.close()

    def test_a_long_backlog_is_given_in_parts(self, admin: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(events, "_slots", threading.BoundedSemaphore(1))
        monkeypatch.setattr(events, "BATCH_SIZE", 3)
        names = [f"u{number}" for number in range(8)]
        for name in names:
            make_user(name)
        lasting = Stream(admin)
        seen: list[str] = []
        last = "0"
        deadline = time.monotonic() + 30
        while f"user/{names[-1]}" not in seen and time.monotonic() < deadline:
            part = Stream(admin, last)
            found = part.events()
            assert len(found) <= events.BATCH_SIZE
            seen += _users(found)
            last = part.last
        lasting.close()
        assert [name for name in seen if name.startswith("user/u")] == [f"user/{name}" for name in names]


def test_a_place_survives_being_written_and_orders_by_transaction_first() -> None:
    for place in (StreamPosition(1), StreamPosition(745, 12), StreamPosition(2**63, 10**12 - 1)):
        assert parse_position(str(place)) == place
    assert int(str(StreamPosition(9, 999))) < int(str(StreamPosition(10, 1))) < int(str(StreamPosition(10, 2)))


@pytest.mark.usefixtures("ledger")
def test_the_index_serves_the_stream() -> None:
    """On a table too small for the planner to care, so the other ways are closed to it."""
    with transaction.atomic(), connection.cursor() as cursor:
        for other_way in ("seqscan", "bitmapscan", "sort", "incremental_sort"):
            cursor.execute(f"SET LOCAL enable_{other_way} = off")
        cursor.execute(
            "EXPLAIN SELECT * FROM pools_auditentry WHERE transaction >= '5' AND transaction < '9'"
            " ORDER BY transaction, id LIMIT 10"
        )
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "audit_stream" in plan
    assert "Sort" not in plan


def _get(user: Any, query: dict[str, str], headers: dict[str, str]) -> Any:
    token = AccessToken.objects.first() or apply_change(CreateToken(owner=user, name="place"))[0]
    return Client().get("/api/events", query, headers={"Authorization": f"Bearer {issue_jwt(token)[0]}"} | headers)


def test_streams_share_what_they_read(admin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """500 windows cost as much as one; another position, snapshot or horizon is read for itself."""
    reads: list[tuple[Any, ...]] = []

    def read(actor: Any, start: StreamPosition, end: StreamPosition, **more: Any) -> list[Any]:
        reads.append((actor, start, end, more["known_snapshot"]))
        return [(StreamPosition(5), AuditEntry.objects.all()[0])]

    monkeypatch.setattr(events, "entries_after", read)
    login = Login(User.objects.get(username=admin).pk)
    present = events._Logins()
    present.add(login, 1)
    monkeypatch.setattr(events, "_logins", present)
    place, end = StreamPosition(4), StreamPosition(6)
    latest = events._Round(end, place)
    found = [latest.read(login, place, None) for _ in range(3)]
    assert [len(batch or []) for batch in found] == [1, 1, 1]
    latest.read(login, StreamPosition(3), None)
    latest.read(login, place, "1:2:")
    events._Round(StreamPosition(8), place).read(login, place, None)
    assert reads == [
        (None, place, end, None),
        (None, StreamPosition(3), end, None),
        (None, place, end, "1:2:"),
        (None, place, StreamPosition(8), None),
    ]
    assert latest.read(Login(0), place, None) is None, "nobody has this login"


def test_a_stream_that_has_passed_its_first_snapshot_shares_with_others(
    admin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: list[str | None] = []
    original = events.entries_after

    def read(*place: Any, known_snapshot: str | None, **more: Any) -> list[Any]:
        known.append(known_snapshot)
        return original(*place, known_snapshot=known_snapshot, **more)

    monkeypatch.setattr(events, "entries_after", read)
    stream = Stream(admin)
    for name in ("b", "c"):
        make_user(name)
        for chunk in stream.chunks:
            if f"user/{name}".encode() in chunk:
                break
    stream.close()
    assert known[0] is not None and known[-1] is None
