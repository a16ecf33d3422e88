"""Targets and notices over the API: who may, what is refused, and what is never shown."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from pools.domain.changes.users import GrantRole, RevokeRole
from pools.domain.people.notices import NoticeKind
from pools.models import AuditEntry, Notice, NoticeTarget, Pool, User
from pools.security.sealing import unseal
from pools.services.changes.secret_key import list_sealed_with_former_keys, seal_again
from pools.services.people import notice_targets
from tests.support import world
from tests.support.api_client import ApiAnswer, ApiClient, Callers
from tests.support.world import ModuleData

TARGETS, NOTICES = "/api/notices/target", "/api/notices"
HOOK = {"name": "ci", "channel": "webhook", "address": "https://ci.example.com/hooks/s3cret?token=t0ken"}


@pytest.fixture(scope="module")
def bob_once(module_data: ModuleData) -> ApiClient:
    with module_data():
        world.make_pool("team")
        world.make_user("bob", "osmo-team-user")
        return world.call_as("bob")


@pytest.fixture
def bob(bob_once: ApiClient, db: None) -> ApiClient:
    return ApiClient(bob_once.token)


@pytest.fixture
def lead(caller: Callers, bob: ApiClient) -> ApiClient:
    return caller("lead", "osmo-team-admin")


@pytest.fixture
def root(caller: Callers) -> ApiClient:
    return caller("root", "osmo-admin")


def _codes(answer: ApiAnswer) -> list[tuple[str, str]]:
    return [(each["path"], each["code"]) for each in answer.body["details"]]


def _added(answer: ApiAnswer) -> int:
    assert answer.status == 200, answer.body
    return int(answer.body["target"]["id"])


def test_a_person_adds_a_webhook_and_sees_its_secret_once(bob: ApiClient) -> None:
    answer = bob("POST", TARGETS, HOOK)
    made, secret = answer.body["target"], answer.body["secret"]
    assert secret.startswith("whsec_")
    assert (made["user"], made["pool"], made["address"]) == ("bob", None, "https://ci.example.com/…")
    row = NoticeTarget.objects.get()
    assert "s3cret" not in row.sealed_address
    assert (unseal(row.sealed_address), unseal(row.sealed_secret)) == (HOOK["address"], secret)
    shown = str([bob("GET", TARGETS).body, bob("GET", f"{TARGETS}/{row.pk}").body, bob("GET", "/api/audit").body])
    entries = list(AuditEntry.objects.filter(object="notice_target/bob/ci").values())
    assert len(entries) == 1
    for text in ("s3cret", "t0ken", secret, row.sealed_secret):
        assert text not in shown
        assert text not in str(entries)


def test_its_secret_is_replaced(bob: ApiClient) -> None:
    effect = bob("POST", f"{TARGETS}?dry_run=True", HOOK).body
    assert (effect["before"], len(effect["after"])) == ([], 1)
    assert not NoticeTarget.objects.exists(), "a dry run adds nothing"
    answer = bob("POST", TARGETS, HOOK)
    renewed = bob("POST", f"{TARGETS}/{_added(answer)}/secret").body["secret"]
    assert renewed != answer.body["secret"]
    assert unseal(NoticeTarget.objects.get().sealed_secret) == renewed


def test_a_repeated_request_adds_one_target(bob: ApiClient) -> None:
    assert bob("POST", TARGETS, HOOK, idempotency_key="k").status == 200
    again = bob("POST", TARGETS, HOOK, idempotency_key="k")
    assert _codes(again) == [("Idempotency-Key", "secret_shown_once")]
    assert NoticeTarget.objects.count() == 1


REFUSED = {
    "a local program": ({"channel": "apprise", "address": "dbus://"}, ("address", "bad_address")),
    "a file": ({"channel": "apprise", "address": "workflows://h/w/s?template=/etc/passwd"}, ("address", "bad_address")),
    "two options": ({"channel": "apprise", "address": "slack://a/b/c?to=x?template=y"}, ("address", "bad_address")),
    "half an address": ({"channel": "apprise", "address": "slack://a"}, ("address", "bad_address")),
    "a mail server": ({"channel": "apprise", "address": "mailto://u:p@mail.example"}, ("address", "bad_address")),
    "no scheme": ({"address": "ci.example.com"}, ("address", "bad_address")),
    "a file address": ({"address": "file:///etc/passwd"}, ("address", "bad_address")),
    "a login": ({"address": "https://u:p@ci.example.com/"}, ("address", "bad_address")),
    "a bad port": ({"address": "https://ci.example.com:port/"}, ("address", "bad_address")),
    "a line feed": ({"address": "https://ci.example.com/\nX: y"}, ("address", "bad_address")),
    "a long one": ({"address": "https://ci.example.com/" + "x" * 2000}, ("address", "bad_address")),
    "the bot": ({"channel": "slack", "address": "x"}, ("channel", "bad_value")),
    "mail without a server": ({"channel": "mail", "address": "a@example.com"}, ("channel", "not_configured")),
    "a kind of the platform": ({"kinds": ["job_late"]}, ("kinds", "bad_value")),
    "an unknown kind": ({"kinds": ["everything"]}, ("kinds", "bad_value")),
    "a test": ({"kinds": ["test"]}, ("kinds", "bad_value")),
    "no kind": ({"kinds": []}, ("kinds", "missing")),
    "another pool": ({"pools": ["other"]}, ("pools", "unknown_pool")),
    "a name": ({"name": "1"}, ("name", "bad_name")),
    "an unknown key": ({"secret": "x"}, ("secret", "unknown_key")),
    "no text": ({"address": 7}, ("address", "bad_value")),
}  # fmt: skip


def test_what_is_refused(bob: ApiClient) -> None:
    world.make_pool("other")
    for case, (body, fault) in REFUSED.items():
        answer = bob("POST", TARGETS, HOOK | body)
        assert answer.status == 400, case
        assert fault in _codes(answer), case
    assert not NoticeTarget.objects.exists()


def test_plain_http_is_refused_where_the_installation_is_secure(bob: ApiClient, set_osmo: Callable[..., None]) -> None:
    set_osmo(secure=True)
    for body in ({"address": "http://ci.example.com/"}, {"channel": "apprise", "address": "json://ci.example.com/"}):
        assert _codes(bob("POST", TARGETS, HOOK | body)) == [("address", "bad_address")]


def test_a_pool_target_is_for_its_admins(bob: ApiClient, lead: ApiClient, root: ApiClient, caller: Callers) -> None:
    body = HOOK | {"pool": "team"}
    assert bob("POST", TARGETS, body).status == 403
    target = _added(lead("POST", TARGETS, body))
    assert caller("eve")("POST", TARGETS, body).status == 404
    address = f"{TARGETS}/{target}"
    assert [row["pool"] for row in lead("GET", TARGETS).body] == ["team"]
    assert bob("GET", TARGETS).body == []
    calls = [("GET", ""), ("PATCH", ""), ("DELETE", ""), *(("POST", path) for path in ("/test", "/secret", "/replay"))]
    for method, path in calls:
        assert bob(method, address + path).status == 404
    viewer = caller("viewer", "osmo-viewer")
    assert viewer("GET", address).status == 200
    assert viewer("PATCH", address, {"enabled": False}).status == 403
    assert viewer("POST", f"{address}/test").status == 403
    assert root("PATCH", address, {"enabled": False}).body["enabled"] is False
    assert lead("DELETE", address).status == 200
    assert not NoticeTarget.objects.exists()


def test_targets_of_people_are_their_own(bob: ApiClient, lead: ApiClient, caller: Callers) -> None:
    address = f"{TARGETS}/{_added(bob('POST', TARGETS, HOOK))}"
    assert lead("GET", address).status == 404
    assert caller("viewer", "osmo-viewer")("DELETE", address).status == 403
    assert bob("DELETE", f"{address}?dry_run=True").body["after"] == []
    assert bob("DELETE", address).status == 200


def test_the_installation_has_targets_too(lead: ApiClient, root: ApiClient) -> None:
    body = HOOK | {"installation": True, "kinds": ["job_late", "cluster_silent"]}
    assert lead("POST", TARGETS, body).status == 403
    _added(root("POST", TARGETS, body))
    assert lead("GET", TARGETS).body == []
    both = root("POST", TARGETS, body | {"pool": "team", "name": "both"})
    assert _codes(both) == [("pool", "bad_value")]


def test_a_name_is_taken_once_for_each_owner(bob: ApiClient, lead: ApiClient, root: ApiClient) -> None:
    for each, more in ((bob, {}), (lead, {"pool": "team"}), (root, {"installation": True})):
        assert each("POST", TARGETS, HOOK | more).status == 200
        assert each("POST", TARGETS, HOOK | more).status == 409


def test_there_is_a_limit(bob: ApiClient, set_osmo: Callable[..., None]) -> None:
    set_osmo(max_notice_targets=1)
    assert bob("POST", TARGETS, HOOK).status == 200
    full = bob("POST", TARGETS, HOOK | {"name": "two"})
    assert (full.status, _codes(full)) == (409, [("name", "too_many_targets")])
    assert full.body["details"][0]["limit"] == 1


def test_a_target_is_changed(bob: ApiClient) -> None:
    address = f"{TARGETS}/{_added(bob('POST', TARGETS, HOOK))}"
    body = {"kinds": ["drain"], "pools": ["team"], "address": "https://new.example.com", "enabled": False}
    changed = bob("PATCH", address, body).body
    assert {key: changed[key] for key in body} == body
    assert _codes(bob("PATCH", address, {"kinds": ["nothing"]})) == [("kinds", "bad_value")]
    assert bob("PATCH", address, {"name": "other"}).status == 400
    effect = bob("PATCH", f"{address}?dry_run=True", {"enabled": True}).body
    assert (effect["before"]["enabled"], effect["after"]["enabled"]) == (False, True)
    assert bob("GET", address).body["enabled"] is False


def test_changes_at_the_same_time_are_both_kept(bob: ApiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second change was written between the read and the write of the first one."""
    target = _added(bob("POST", TARGETS, HOOK))
    address = "https://new.example.com"
    _between(monkeypatch, lambda: bob("PATCH", f"{TARGETS}/{target}", {"address": address}))
    changed = bob("PATCH", f"{TARGETS}/{target}", {"kinds": ["drain"]}).body
    assert (changed["kinds"], changed["address"]) == (["drain"], address)
    assert unseal(NoticeTarget.objects.get().sealed_address) == address


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("PATCH", "", {"kinds": ["drain"]}), ("DELETE", "", {}), ("POST", "/secret", {}), ("POST", "/test", {})],
)
def test_a_target_that_is_removed_meanwhile(
    bob: ApiClient, monkeypatch: pytest.MonkeyPatch, method: str, path: str, body: dict[str, Any]
) -> None:
    target = _added(bob("POST", TARGETS, HOOK))
    _between(monkeypatch, lambda: bob("DELETE", f"{TARGETS}/{target}", {}))
    assert bob(method, f"{TARGETS}/{target}{path}", body).status == 404


def _between(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Make a change once, after the next request has read its target."""
    left = [change]

    def require_owner(actor: Any, target: Any) -> None:
        real(actor, target)
        if left:
            left.pop()()

    real = notice_targets.require_owner
    monkeypatch.setattr(notice_targets, "require_owner", require_owner)


def test_nobody_is_flooded_with_tests_and_repetitions(bob: ApiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address may be that of somebody who has requested nothing."""
    monkeypatch.setattr(notice_targets, "MAX_TESTS", 2)
    target, other = _added(bob("POST", TARGETS, HOOK)), _added(bob("POST", TARGETS, {**HOOK, "name": "other"}))
    made = [bob("POST", f"{TARGETS}/{each}/test").body["id"] for each in (target, other)]
    refused = bob("POST", f"{TARGETS}/{target}/test")
    assert (refused.status, _codes(refused)) == (429, [("", "too_many_notices")])
    Notice.objects.update(
        created_at=timezone.now() - timedelta(hours=2), status="delivered", attempted_at=timezone.now()
    )
    assert bob("POST", f"{TARGETS}/{target}/test").status == 200
    assert bob("POST", f"{NOTICES}/{made[0]}/replay").status == 429
    Notice.objects.update(attempted_at=timezone.now() - timedelta(minutes=2))
    assert bob("POST", f"{NOTICES}/{made[0]}/replay").body["status"] == "waiting"


def test_a_test_notice_waits_to_be_sent(bob: ApiClient) -> None:
    target = _added(bob("POST", TARGETS, HOOK))
    made = bob("POST", f"{TARGETS}/{target}/test").body
    assert (made["kind"], made["status"], made["attempts"]) == (NoticeKind.TEST, "waiting", 0)
    assert bob("GET", f"{NOTICES}?target={target}&status=waiting").body["notices"] == [made]
    for _ in range(4):
        bob("POST", f"{TARGETS}/{target}/test")
    assert bob("POST", f"{TARGETS}/{target}/test").status == 409


def test_dead_letters_are_listed_and_replayed(bob: ApiClient, caller: Callers) -> None:
    target = _added(bob("POST", TARGETS, HOOK))
    made = bob("POST", f"{TARGETS}/{target}/test").body
    assert bob("POST", f"{NOTICES}/{made['id']}/replay").status == 409
    Notice.objects.update(status="dead", error="The receiver answered 500.", attempts=8)
    (dead,) = bob("GET", f"{NOTICES}?status=dead").body["notices"]
    assert dead["error"] == "The receiver answered 500."
    eve = caller("eve")
    assert eve("GET", NOTICES).body["notices"] == []
    assert eve("POST", f"{NOTICES}/{made['id']}/replay").status == 404
    assert caller("viewer", "osmo-viewer")("POST", f"{NOTICES}/{made['id']}/replay").status == 403
    assert bob("POST", f"{NOTICES}/{made['id']}/replay").body["status"] == "waiting"
    Notice.objects.update(status="dead")
    assert bob("POST", f"{TARGETS}/{target}/replay").body == {"notices": 1}
    assert [each["actor"] for each in AuditEntry.objects.filter(action="notice.replayed").values()] == ["bob", "bob"]
    assert bob("POST", f"{NOTICES}/nothing/replay").status == 404
    assert bob("GET", f"{NOTICES}?status=lost&target=x&limit=0").status == 400


def test_secrets_are_sealed_with_a_new_key(bob: ApiClient, settings: Any) -> None:
    bob("POST", TARGETS, HOOK)
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = (
        [settings.SECRET_KEY],
        "another-key-of-many-characters-0123456789",
    )
    assert list_sealed_with_former_keys() == [f"notice target {NoticeTarget.objects.get().pk}"] * 2
    root = world.admin_actor()
    assert seal_again(actor=root).sealed == 2
    assert unseal(NoticeTarget.objects.get().sealed_address) == HOOK["address"]


def test_an_account_takes_its_targets_with_it(bob: ApiClient) -> None:
    bob("POST", TARGETS, HOOK)
    User.objects.filter(username="bob").delete()
    assert not NoticeTarget.objects.exists()


def test_a_target_of_two_owners_is_refused(bob: ApiClient) -> None:
    user, pool = User.objects.get(username="bob"), Pool.objects.get(name="team")
    with pytest.raises(IntegrityError, match="notice_target_has_one_owner"), transaction.atomic():
        NoticeTarget.objects.create(name="both", channel="webhook", user=user, pool=pool)


@pytest.mark.parametrize("hours", ["22:00", "25:00-07:00", "22:00-07:00 Europe/Berlin; now"])
def test_the_database_refuses_quiet_hours_of_another_form(db: None, hours: str) -> None:
    with pytest.raises(IntegrityError, match="notice_target_quiet_hours"), transaction.atomic():
        NoticeTarget.objects.create(name="ops", channel="webhook", quiet_hours=hours)


def test_quiet_hours_are_shown_and_changed(bob: ApiClient) -> None:
    hours = "22:00-07:00 Europe/Berlin"
    target = bob("POST", TARGETS, HOOK | {"quiet_hours": hours}).body["target"]
    assert target["quiet_hours"] == hours
    address = f"{TARGETS}/{target['id']}"
    answer = bob("PATCH", address, {"quiet_hours": "22:00-07:00 Nowhere"})
    assert (answer.status, answer.body["details"][0]["code"]) == (400, "bad_value")
    assert "Nowhere" not in str(answer.body), "an error does not repeat the value"
    assert bob("PATCH", address, {"kinds": ["drain"]}).body["quiet_hours"] == hours
    assert bob("PATCH", address, {"quiet_hours": ""}).body["quiet_hours"] == ""


def test_a_second_row_is_refused(db: None) -> None:
    NoticeTarget.objects.create(name="ops", channel="webhook")
    with pytest.raises(IntegrityError, match="notice_target_name_once"), transaction.atomic():
        NoticeTarget.objects.create(name="ops", channel="mail")


def test_a_target_is_still_changed_after_a_role_on_its_pool_is_lost(bob: ApiClient) -> None:
    target = _added(bob("POST", TARGETS, HOOK | {"pools": ["team"]}))
    world.apply_change(RevokeRole(username="bob", role_name="osmo-team-user"))
    assert bob("PATCH", f"{TARGETS}/{target}", {"enabled": False}).status == 200
    assert bob("PATCH", f"{TARGETS}/{target}", {"pools": []}).status == 200
    assert _codes(bob("PATCH", f"{TARGETS}/{target}", {"pools": ["team"]})) == [("pools", "unknown_pool")]


def test_a_token_with_fewer_roles_directs_no_news_of_its_owner(caller: Callers, bob: ApiClient) -> None:
    """News of all the owner's work would go there, and still go after the end of the token."""
    world.make_pool("lab")
    world.apply_change(GrantRole(username="bob", role_name="osmo-lab-admin"))
    target = _added(bob("POST", TARGETS, HOOK))
    limited = caller("bob", token_roles=("osmo-lab-admin",))
    refused = [
        limited("POST", TARGETS, HOOK | {"name": "more"}),
        limited("PATCH", f"{TARGETS}/{target}", {"address": "https://elsewhere.example.com"}),
        limited("POST", f"{TARGETS}/{target}/secret"),
        limited("POST", f"{TARGETS}/{target}/test"),
        limited("DELETE", f"{TARGETS}/{target}"),
        limited("POST", "/api/profile/settings", {"email": "else@example.com"}),
        limited("POST", "/api/profile/settings", {"email_notification": True}),
    ]
    assert [each.status for each in refused] == [403] * 7
    assert limited("POST", TARGETS, HOOK | {"pool": "lab"}).status == 200
    assert limited("POST", "/api/profile/settings", {"pool": "lab"}).status == 200
