"""Changes above a pool's limit need the approval of a second person."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from pools.domain.changes.pools import PutPool
from pools.domain.changes.users import CreateUser, RevokeRole
from pools.models import ApprovalRequest, AuditEntry, ConfigRevision, Pool
from pools.representations.approval import ApprovalAnswer
from pools.services.configuration import approvals
from pools.services.configuration.approvals import count_decidable, list_requests
from scheduling import tasks
from tests.integration.pools.conftest import pool_config
from tests.support import world
from tests.support.api_client import ApiAnswer, ApiClient, Callers
from tests.support.shapes import assert_has_shape
from tests.support.world import ModuleData

POOL = "/api/configs/pool/team"
SUBPOOL = f"{POOL}/subpool/a"
THIRD = "/api/configs/pool/third"
APPROVALS = "/api/configs/approval"
ASK = "?request_approval=true"


@pytest.fixture(scope="module")
def limited_team_once(sim_once: str, module_data: ModuleData) -> None:
    with module_data():
        world.apply_change(PutPool(name="team", body=pool_config(100, approval_above=10)))
        world.make_subpool("team", "a", 10)
        world.apply_change(PutPool(name="other", body=pool_config(1)))
        for name in ("alice", "bob"):
            world.make_user(name, "osmo-team-admin")


@pytest.fixture
def limited_team(limited_team_once: None, db: None) -> None:
    """Pool `team` of 100 GPUs and its subpool `a` of 10; changes of more than 10 GPUs need an approval."""


@pytest.fixture
def alice(limited_team: None, caller: Callers) -> ApiClient:
    """An admin of the pool."""
    return caller("alice", "osmo-team-admin")


@pytest.fixture
def bob(limited_team: None, caller: Callers) -> ApiClient:
    """Another admin of the pool."""
    return caller("bob", "osmo-team-admin")


def _quota(name: str = "team--a") -> int | None:
    return Pool.objects.get(name=name).last_quota


def _ask(alice: ApiClient, quota: object = 50, **more: Any) -> int:
    answer = alice("PATCH", SUBPOOL + ASK, {"quota": quota, "description": "for the demo", **more})
    assert answer.status == 202, answer.body
    found: int = answer.body["id"]
    return found


def _decide(person: ApiClient, number: int, how: str, **options: Any) -> ApiAnswer:
    return person("POST", f"{APPROVALS}/{number}/{how}", {"description": "seen"}, **options)


def _state(number: int) -> str:
    return ApprovalRequest.objects.get(pk=number).state


def test_a_change_above_the_limit_is_refused_with_its_numbers(limited_team: None, alice: ApiClient) -> None:
    answer = alice("PATCH", SUBPOOL, {"quota": 21})
    assert answer.status == 409
    (fault,) = answer.body["details"]
    assert fault == {
        "path": "",
        "code": "approval_needed",
        "message": "The quota of team--a would change from 10 GPUs to 21 GPUs. Changes of more than 10 GPUs need the "
        'approval of a second person here (limit "Approval above").',
        "amount": "quota",
        "before": 10,
        "after": 21,
        "change": 11,
        "limit": 10,
    }
    assert "?request_approval=true" in answer.body["message"]
    assert (_quota(), ApprovalRequest.objects.count()) == (10, 0)
    assert alice("PATCH", SUBPOOL, {"quota": 20}).status == 200
    assert alice("PATCH", SUBPOOL + ASK, {"quota": 15}).status == 200, "a request for less is the change"
    assert alice("PATCH", SUBPOOL + ASK, {"quota": 500}).status == 400, "what another rule forbids is not requested"
    assert (_quota(), ApprovalRequest.objects.count()) == (15, 0)
    assert alice("GET", f"{APPROVALS}/999999").status == 404
    assert alice("GET", f"{APPROVALS}?state=lost").codes == {("state", "bad_query")}


def test_a_second_person_approves(limited_team: None, alice: ApiClient, bob: ApiClient) -> None:
    answer = alice("PATCH", SUBPOOL + ASK, {"quota": "50%", "description": "for the demo"})
    assert answer.status == 202
    number = answer.body["id"]
    assert answer.headers["Location"] == f"{APPROVALS}/{number}"
    assert answer.body["arguments"]["quota"] == 50  # as understood, whatever the pool has later
    assert (answer.body["state"], answer.body["may_decide"], answer.body["may_withdraw"]) == ("waiting", False, True)
    assert _quota() == 10
    (shown,) = bob("GET", f"{APPROVALS}?state=waiting&pool=team").body["approvals"]
    assert (shown["id"], shown["may_decide"], shown["may_withdraw"]) == (number, True, False)
    approved = _decide(bob, number, "approve")
    assert (approved.status, approved.body["state"], approved.body["decided_by"]) == (200, "approved", "bob")
    assert _quota() == 50
    entry = AuditEntry.objects.filter(object="pool/team--a").latest("id")
    assert entry.actor == "bob"
    assert entry.description == f"request {number} of alice, approved by bob: for the demo"
    decision = AuditEntry.objects.get(object=f"approval/{number}", action="approval.approved")
    assert (decision.actor, decision.after["requested_by"]) == ("bob", "alice")


def test_the_requester_cannot_decide(limited_team: None, alice: ApiClient) -> None:
    number = _ask(alice)
    for how in ("approve", "reject"):
        refused = _decide(alice, number, how)
        assert refused.status == 403
        assert refused.codes == {("", "approval_by_second_person")}
    assert (_state(number), _quota()) == ("waiting", 10)


@pytest.mark.parametrize(
    ("roles", "sees", "decides"),
    [
        (["osmo-admin"], 200, 200),
        (["osmo-viewer"], 200, 403),
        (["osmo-team-admin"], 200, 200),
        (["osmo-team-user"], 404, 404),
        (["osmo-other-admin"], 404, 404),
        ([], 404, 404),
    ],
)
def test_people_who_see_and_decide_about_a_subpool(
    limited_team: None, alice: ApiClient, caller: Callers, roles: list[str], sees: int, decides: int
) -> None:
    number = _ask(alice)
    person = caller("pat", *roles)
    assert person("GET", f"{APPROVALS}/{number}").status == sees
    assert len(person("GET", APPROVALS).body["approvals"]) == (1 if sees == 200 else 0)
    assert count_decidable(person.actor) == (1 if decides == 200 else 0)
    assert _decide(person, number, "withdraw").status == (404 if sees == 404 else 403)
    assert _decide(person, number, "approve").status == decides


def test_a_pool_admin_sees_but_does_not_decide_about_the_pool_itself(
    limited_team: None, alice: ApiClient, admin: ApiClient, caller: Callers
) -> None:
    answer = admin("PATCH", POOL + ASK, {"resources": {"gpu": {"guarantee": 150}}})
    assert answer.status == 202, answer.body
    number = answer.body["id"]
    assert not alice("GET", f"{APPROVALS}/{number}").body["may_decide"]
    assert _decide(alice, number, "approve").status == 403
    assert _decide(caller("eve", "osmo-admin"), number, "approve").status == 200
    assert Pool.objects.get(name="team").guarantee == 150
    assert ConfigRevision.objects.latest("revision").username == "eve"


def test_deletions_need_the_approval(limited_team: None, admin: ApiClient, caller: Callers) -> None:
    admin("PATCH", POOL, {"approval_above": 5})
    first = admin("DELETE", SUBPOOL + ASK)
    assert first.status == 202
    eve = caller("eve", "osmo-admin")
    assert _decide(eve, first.body["id"], "approve").status == 200
    assert Pool.objects.get(name="team--a").subpool_state == "ARCHIVED"
    second = admin("DELETE", POOL + ASK)
    assert_has_shape(second.body, ApprovalAnswer)
    assert {need["amount"] for need in second.body["needs"]} >= {"guarantee", "approval_above"}
    assert _decide(eve, second.body["id"], "approve").status == 200
    assert Pool.objects.get(name="team").archived


def test_a_move_to_another_cohort_is_a_change_of_its_limits(sim: str, admin: ApiClient) -> None:
    world.apply_change(PutPool(name="third", body=pool_config(100, approval_above=10, cohort="org", borrowing_limit=0)))
    answer = admin("PATCH", THIRD, {"cohort": "lab"})
    (fault,) = answer.body["details"]
    assert (answer.status, fault["code"], fault["amount"]) == (409, "approval_needed", "lending limit")
    assert "from 100 GPUs in cohort org to 100 GPUs in cohort lab" in fault["message"]
    request = admin("PATCH", THIRD + ASK, {"cohort": "lab"})
    assert_has_shape(request.body, ApprovalAnswer)
    assert [(need["before_in"], need["after_in"]) for need in request.body["needs"]] == [("cohort org", "cohort lab")]


def test_a_change_meanwhile_supersedes_the_request(limited_team: None, alice: ApiClient, bob: ApiClient) -> None:
    number = _ask(alice)
    assert bob("PATCH", SUBPOOL, {"quota": 12}).status == 200
    refused = _decide(bob, number, "approve")
    assert refused.status == 409
    assert refused.codes == {("", "approval_superseded")}
    assert (_state(number), _quota()) == ("superseded", 12)
    assert "changed after it was made" in refused.body["message"]


def test_a_new_subpool_that_exists_meanwhile_supersedes(limited_team: None, alice: ApiClient, bob: ApiClient) -> None:
    answer = alice("POST", f"{POOL}/subpool{ASK}", {"subpool_name": "b", "quota": 30}, idempotency_key="k")
    again = alice("POST", f"{POOL}/subpool{ASK}", {"subpool_name": "b", "quota": 30}, idempotency_key="k")
    assert (answer.status, again.status, again.body["id"]) == (202, 202, answer.body["id"])
    bob("POST", f"{POOL}/subpool", {"subpool_name": "b", "quota": 3})
    assert _decide(bob, answer.body["id"], "approve").codes == {("", "approval_superseded")}
    assert _quota("team--b") == 3


def test_a_change_that_is_not_possible_now_still_waits(limited_team: None, alice: ApiClient, bob: ApiClient) -> None:
    number = _ask(alice, 95)
    for name in "bc":
        world.make_subpool("team", name, 10)
    assert _decide(bob, number, "approve").status == 400
    assert (_state(number), _quota()) == ("waiting", 10)


def test_a_requester_without_the_role_stands_behind_nothing(
    limited_team: None, alice: ApiClient, bob: ApiClient
) -> None:
    number = _ask(alice)
    world.apply_change(RevokeRole(username="alice", role_name="osmo-team-admin"))
    assert _decide(bob, number, "approve").codes == {("", "requester_lost_role")}
    assert (_state(number), _quota()) == ("waiting", 10)


def test_reject_withdraw_and_one_decision(limited_team: None, alice: ApiClient, bob: ApiClient) -> None:
    first = _ask(alice)
    assert _decide(bob, first, "reject").body["decision_note"] == "seen"
    assert _decide(bob, first, "approve").codes == {("state", "approval_is_final")}
    second = _ask(alice)
    assert _decide(bob, second, "withdraw").codes == {("", "not_requester")}
    assert _decide(alice, second, "withdraw").body["state"] == "withdrawn"
    assert _decide(bob, second, "approve").status == 409
    assert _quota() == 10


def test_one_request_for_an_object_waits(limited_team: None, alice: ApiClient, bob: ApiClient) -> None:
    number = _ask(alice)
    assert _ask(alice) == number
    refused = bob("PATCH", SUBPOOL + ASK, {"quota": 60})
    assert (refused.status, refused.body["details"][0]["request"]) == (409, number)


def test_a_person_has_a_limited_number_of_waiting_requests(
    limited_team: None, alice: ApiClient, bob: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approvals, "MAX_WAITING", 1)
    number = _ask(alice)
    change = {"subpool_name": "b", "quota": 30}
    refused = alice("POST", f"{POOL}/subpool{ASK}", change)
    assert (refused.status, refused.codes) == (429, {("", "too_many_approvals")})
    assert _ask(alice) == number  # the same request again is none more
    assert bob("POST", f"{POOL}/subpool{ASK}", change).status == 202
    _decide(alice, number, "withdraw")
    assert alice("PATCH", f"{POOL}/subpool/a{ASK}", {"quota": 40}).status == 202


def test_a_new_pool_of_a_name_does_not_show_the_requests_of_the_last(
    sim: str, admin: ApiClient, caller: Callers
) -> None:
    world.apply_change(PutPool(name="red", body=pool_config(100, approval_above=10)))
    request = caller("eve", "osmo-red-admin")(
        "POST", f"/api/configs/pool/red/subpool{ASK}", {"subpool_name": "b", "quota": 30}
    )
    assert admin("PUT", "/api/configs/pool/red/rename", {"new_name": "blue"}).status == 200
    world.apply_change(PutPool(name="red", body=pool_config(1)))
    visible = {}
    for name in ("red", "blue"):
        person = world.apply_change(CreateUser(id=f"lead-{name}", roles=[f"osmo-{name}-admin"]))
        visible[name] = [row.pk for row in list_requests(person.as_actor())]
    assert visible == {"red": [], "blue": [request.body["id"]]}


def test_the_admins_of_a_renamed_pool_decide_its_requests(sim: str, admin: ApiClient, caller: Callers) -> None:
    for how, status, state in (("reject", 200, "rejected"), ("approve", 409, "superseded")):
        name = f"red-{how}"
        world.apply_change(PutPool(name=name, body=pool_config(100, approval_above=10)))
        change, lead = {"subpool_name": "b", "quota": 30}, caller(f"lead-{how}", f"osmo-{name}-admin")
        eve = caller(f"eve-{how}", f"osmo-{name}-admin")
        number = eve("POST", f"/api/configs/pool/{name}/subpool{ASK}", change).body["id"]
        assert admin("PUT", f"/api/configs/pool/{name}/rename", {"new_name": f"blue-{how}"}).status == 200
        assert lead("GET", f"{APPROVALS}/{number}").body["may_decide"] is True
        assert _decide(lead, number, how).status == status
        assert _state(number) == state


def test_requests_expire(limited_team: None, alice: ApiClient, bob: ApiClient) -> None:
    number = _ask(alice)
    with world.triggers_off():
        ApprovalRequest.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert _decide(bob, number, "approve").codes == {("expires_at", "approval_expired")}
    assert bob("GET", f"{APPROVALS}/{number}").body["state"] == "expired"
    assert count_decidable(bob.actor) == 0
    tasks.expire_approvals()
    assert (_state(number), _quota()) == ("expired", 10)
    assert AuditEntry.objects.get(action="approval.expired").actor == "system"


def test_a_dry_run_shows_the_effect_and_the_need(limited_team: None, alice: ApiClient, bob: ApiClient) -> None:
    effect = alice("PATCH", f"{SUBPOOL}?dry_run=true", {"quota": 50}).body
    assert {each["code"] for each in effect["violations"]} == {"approval_needed"}
    assert effect["after"]["unallocated"] == 50
    number = _ask(alice)
    effect = _decide(bob, number, "approve", query={"dry_run": "true"}).body
    assert (effect["violations"], effect["after"]["unallocated"]) == ([], 50)
    assert (_state(number), _quota()) == ("waiting", 10)


@pytest.fixture
def number(limited_team: None, alice: ApiClient) -> int:
    """A waiting request."""
    return _ask(alice)


def _broken_rule(statement: str) -> str | None:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)
    except IntegrityError as error:
        name: str | None = error.__cause__.diag.constraint_name  # type: ignore[union-attr]
        return name
    return None


_DECIDED = "UPDATE pools_approvalrequest SET decided_at = now(), state = "


RAW = [
    (f"{_DECIDED} 'approved', decided_by = 'alice'", "approval_by_second_person"),
    (f"{_DECIDED} 'rejected'", "approval_by_second_person"),
    ("UPDATE pools_approvalrequest SET state = 'expired'", "approval_decision_complete"),
    ("UPDATE pools_approvalrequest SET arguments = '{}'", "approval_keeps_content"),
    ("DELETE FROM pools_approvalrequest", "never_deleted"),
]


@pytest.mark.parametrize(("statement", "rule"), RAW, ids=["the requester", "nobody", "no time", "content", "deletion"])
def test_raw_sql_is_refused(number: int, statement: str, rule: str) -> None:
    assert _broken_rule(statement) == rule


def test_a_decision_is_final_for_raw_sql(number: int, bob: ApiClient) -> None:
    _decide(bob, number, "reject")
    again = f"{_DECIDED} 'approved', decided_by = 'bob'"
    assert _broken_rule(again) == "approval_is_final"


def test_a_second_waiting_row_is_refused(number: int) -> None:
    columns = ", ".join(field.column for field in ApprovalRequest._meta.fields if field.column != "id")
    copy = f"INSERT INTO pools_approvalrequest ({columns}) SELECT {columns} FROM pools_approvalrequest"
    assert _broken_rule(copy) == "approval_waits_once"


def test_a_request_of_another_version_is_shown_and_still_waits(
    limited_team: None, alice: ApiClient, bob: ApiClient, admin: ApiClient
) -> None:
    """An unknown change needs the highest permission, because nobody can say which one it had."""
    number = _ask(alice)
    as_stored = ApprovalRequest.objects.values("arguments", "arguments_format").get(pk=number)
    for stored in ({"arguments": {"colour": "red"}}, {"arguments_format": 9}):
        with world.triggers_off():
            ApprovalRequest.objects.filter(pk=number).update(**as_stored | stored)
        refused = _decide(bob, number, "approve")
        assert (refused.status, {code for _, code in refused.codes}) == (409, {"approval_unreadable"})
        assert (_state(number), _quota()) == ("waiting", 10)
    with world.triggers_off():
        ApprovalRequest.objects.filter(pk=number).update(**as_stored | {"service": "paint_subpool"})
    assert bob("GET", APPROVALS).body["approvals"][0]["may_decide"] is False
    assert [_decide(person, number, "approve").status for person in (bob, admin)] == [403, 409]
    assert (_state(number), _quota()) == ("waiting", 10)


def test_the_same_request_of_the_former_version_is_found_again(limited_team: None, alice: ApiClient) -> None:
    """It stored no tags, or none as null."""
    number = _ask(alice)
    with world.triggers_off():
        row = ApprovalRequest.objects.get(pk=number)
        former = {**{name: value for name, value in row.arguments.items() if value is not None}, "tags": None}
        ApprovalRequest.objects.filter(pk=number).update(arguments=former)
    assert _ask(alice) == number


def test_a_stranger_learns_nothing_from_a_bad_body(limited_team: None, caller: Callers) -> None:
    stranger = caller("zoe", "osmo-other-user")
    for method in ("PATCH", "DELETE"):
        assert stranger(method, SUBPOOL, {"description": 5}).status == 404
