"""Receivers, settings that allow them, and targets."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings

from pools.domain.changes.notices import CreateTarget
from pools.domain.configuration.cluster_addresses import LOOPBACK
from pools.domain.people.notices import PERSONAL_KINDS
from pools.domain.people.roles import Actor
from pools.models import NoticeTarget
from tests.support.http_receiver import Receiver, run_receiver
from tests.support.notices import plan_notices
from tests.support.world import apply_change


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with run_receiver() as running:
        yield running


@pytest.fixture
def set_osmo(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Changes settings of the operator for this test."""

    def change(**values: Any) -> None:
        monkeypatch.setattr(settings, "OSMO", dataclasses.replace(settings.OSMO, **values))

    return change


@pytest.fixture
def open_network(set_osmo: Callable[..., None]) -> None:
    """Notices may go to this machine."""
    set_osmo(notice_addresses=list(LOOPBACK))


Hook = Callable[..., tuple[NoticeTarget, str]]


@pytest.fixture
def hook(receiver: Receiver) -> Hook:
    """Adds a webhook of an actor to the receiver, and makes the notices of the past, which it does not get."""

    def add(actor: Actor, path: str = "/hook", **more: Any) -> tuple[NoticeTarget, str]:
        plan_notices()
        values = {"name": "hook", "channel": "webhook", "address": receiver.url + path, "kinds": PERSONAL_KINDS} | more
        return apply_change(CreateTarget(**values), actor=actor)

    return add
