"""A temporary quota: raised until a time, given back by itself, refused where a promise could break."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from pools.domain.changes.subpools import DeleteSubpool, ResizeSubpool
from pools.domain.errors import BadInput
from pools.domain.people.roles import SYSTEM
from pools.models import AuditEntry, Pool
from pools.services.configuration.subpools import (
    TEMPORARY_QUOTA_ENDED,
    end_temporary_quotas,
    resize_subpool,
)
from scheduling import tasks
from tests.support import world
from tests.support.world import apply_change, make_subpool, sign_in

FRIDAY = timedelta(days=3)


def _raise(quota: int = 50, *, name: str = "a", **options: Any) -> Any:
    until = options.pop("until", timezone.now() + FRIDAY)
    command = ResizeSubpool(parent="team", subpool_name=name, quota=quota, until=until)
    return resize_subpool(command, actor=SYSTEM, **options)


def _row(name: str = "team--a") -> Pool:
    return Pool.objects.get(name=name)


def _let_it_end(name: str = "team--a") -> None:
    Pool.objects.filter(name=name).update(quota_until=timezone.now() - timedelta(seconds=1))


def test_it_ends_by_itself_and_is_audited(split_team: Pool) -> None:
    _raise()
    assert (_row().last_quota, _row().quota_after) == (50, 30)
    assert end_temporary_quotas() == 0
    _let_it_end()
    version = _row().version
    tasks.give_temporary_quotas_back()
    row = _row()
    assert (row.last_quota, row.quota_until, row.quota_after) == (30, None, None)
    assert row.version == version + 1
    entry = AuditEntry.objects.filter(object="pool/team--a").latest("id")
    assert (entry.action, entry.actor, entry.description) == ("subpool.updated", "system", TEMPORARY_QUOTA_ENDED)
    assert end_temporary_quotas() == 0


def test_a_second_raise_keeps_the_lasting_quota_and_a_lasting_change_ends_it(split_team: Pool) -> None:
    _raise(50)
    _raise(40)
    assert (_row().last_quota, _row().quota_after) == (40, 30)
    result = apply_change(ResizeSubpool(parent="team", subpool_name="a", quota=45))
    assert (_row().last_quota, _row().quota_until) == (45, None)
    assert "ends with this change" in result.warnings[0]


def test_a_deleted_subpool_has_none(split_team: Pool) -> None:
    _raise()
    apply_change(DeleteSubpool(parent="team", subpool_name="a"))
    assert _row().quota_until is None
    make_subpool("team", "a", 5)
    assert (_row().last_quota, _row().quota_after) == (5, None)


def test_it_is_refused_where_it_would_break_a_promise(split_team: Pool) -> None:
    for quota, until, code in (
        (20, FRIDAY, "temporary_cut"),
        (30, FRIDAY, "temporary_cut"),
        (50, -FRIDAY, "bad_end"),
        (50, timedelta(days=367), "bad_end"),
        (81, FRIDAY, "quota_exceeds_parent"),
    ):
        with pytest.raises(BadInput) as refused:
            _raise(quota, until=timezone.now() + until)
        assert [violation.code for violation in refused.value.violations] == [code]
    assert (_row().last_quota, _row().quota_until) == (30, None)


def test_the_database_refuses_half_a_temporary_quota(split_team: Pool) -> None:
    tomorrow = "quota_until = now() + interval '1 day'"
    for assignments in (
        tomorrow, "quota_after = 3", f"{tomorrow}, quota_after = 31", f"{tomorrow}, quota_after = -1",
    ):  # fmt: skip
        for name in ("team--a", "team"):
            refused = pytest.raises(IntegrityError, match="temporary_quota_is_a_raise")
            with refused, transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(f"UPDATE pools_pool SET {assignments} WHERE name = %s", [name])


def test_the_api_and_its_dry_run(split_team: Pool) -> None:
    world.make_user("chief", "osmo-team-admin")
    client = sign_in("chief")
    address = "/api/configs/pool/team/subpool/a"
    end = (timezone.now() + FRIDAY).replace(tzinfo=None).isoformat(timespec="microseconds")

    def patch(body: dict[str, Any], query: str = "") -> Any:
        return client.patch(address + query, body, content_type="application/json")

    effect = patch({"quota": 50, "until": end}, "?dry_run=True").json()
    assert effect["after"]["subpools"][0]["quota_until"] == f"{end}Z"
    assert effect["after"]["subpools"][0]["quota_after"] == 30
    assert _row().quota_until is None
    cut = patch({"quota": 10, "until": end}, "?dry_run=True").json()
    assert [each["code"] for each in cut["violations"]] == ["temporary_cut"]
    assert patch({"quota": 50, "until": "Friday"}).status_code == 400
    answer = patch({"quota": 50, "until": end})
    assert answer.status_code == 200
    assert (answer.json()["quota_until"], answer.json()["quota_after"]) == (f"{end}Z", 30)
    assert client.get(address).json()["quota_after"] == 30


def test_the_page_previews_and_shows_it(split_team: Pool) -> None:
    world.make_user("chief", "osmo-team-admin")
    client = sign_in("chief")
    end = f"{timezone.now() + FRIDAY:%Y-%m-%dT%H:%M}"
    page = client.get(f"/pools/team/subpools/a/resize/-/preview?quota=50&until={end}")
    assert page.status_code == 200, page.content.decode()
    assert "it is 30 GPUs again" in page.content.decode()
    done = client.post(page.context["form_address"], {**page.context["hidden"], "step": "confirm"})
    assert done.status_code == 302
    assert (_row().last_quota, _row().quota_after) == (50, 30)
    assert "temporary; 30 again" in client.get("/pools/team").content.decode()
