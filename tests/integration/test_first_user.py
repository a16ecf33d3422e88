"""The first user has the password that the operator gave, on one's own machine whatever the rules say of it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from osmo_admin.processes.bootstrap import prepare_database
from pools.domain.changes.users import CreateUser
from pools.domain.errors import BadInput
from pools.models import User
from tests.support.world import apply_change


@pytest.mark.django_db
def test_the_operators_password_is_taken_as_it_is() -> None:
    assert prepare_database(demo=False, password="admin") == {"admin_created": True, "demo": False}
    user = User.objects.get(username="admin")
    assert user.check_password("admin")
    assert user.as_actor().is_admin


@pytest.mark.django_db
def test_on_a_server_for_others_it_has_to_keep_the_rules(settings: Any) -> None:
    settings.OSMO = dataclasses.replace(settings.OSMO, secure=True)
    with pytest.raises(BadInput):
        prepare_database(demo=False, password="admin")
    assert not User.objects.exists()


@pytest.mark.django_db
def test_people_need_a_better_one() -> None:
    with pytest.raises(BadInput) as refused:
        apply_change(CreateUser(id="mallory"), password="admin")
    assert {violation.code for violation in refused.value.details} == {"weak_password"}
