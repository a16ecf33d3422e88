"""The next step of a cluster that is not in sync: one for each reason, with commands that name the cluster."""

from __future__ import annotations

import inspect
import re

import pytest

from scheduling.domain.queues.sync_advice import SyncAction, SyncFacts, advise_sync
from scheduling.kube.connection import error_messages
from scheduling.services.kubernetes.syncing import sync_condition


def _advise(reason: str, **more: object) -> object:
    return advise_sync(SyncFacts("prod", "prod-ns", reason, **more))  # type: ignore[arg-type]


def test_in_sync_nothing_is_to_do() -> None:
    assert _advise("InStep") is None


def test_each_reason_has_a_next_step() -> None:
    written = set(re.findall(r'Synced\.\w+, "(\w+)"', inspect.getsource(sync_condition)))
    reasons = {reason for _, reason, _ in error_messages._MESSAGES} | written | {"HeldElsewhere", "NeverTried"}
    assert {"InStep", "WritesDue", "Forbidden"} <= reasons
    assert [each for each in sorted(reasons - {"InStep"}) if _advise(each) is None] == []


@pytest.mark.parametrize(
    ("reason", "action", "command"),
    [
        ("Forbidden", SyncAction.TEST, "osmo-admin webhook manifest prod "),
        ("Unauthorized", SyncAction.EDIT, "kubectl -n prod-ns create token osmo-admin"),
        ("HeldElsewhere", None, "get lease osmo-admin-prod-ns "),
        ("InTheWay", None, "osmo-admin sync --backend prod --take-over --dry-run"),
        ("WritesDue", SyncAction.EDIT, "osmo-admin sync --backend prod --dry-run"),
    ],
)
def test_the_commands_name_the_cluster(reason: str, action: SyncAction | None, command: str) -> None:
    advice = advise_sync(SyncFacts("prod", "prod-ns", reason))
    assert advice is not None
    assert advice.action == action
    assert command in "\n".join(advice.commands) + " "


def test_drift_in_report_mode_is_decided_by_field() -> None:
    advice = advise_sync(SyncFacts("prod", "prod-ns", "WritesDue", open_drift=2))
    assert advice is not None
    assert "Adopt" in advice.message


def test_a_cluster_without_a_credential_needs_one() -> None:
    advice = advise_sync(SyncFacts("prod", "prod-ns", "InStep", is_configured=False))
    assert advice is not None
    assert advice.action == SyncAction.EDIT
