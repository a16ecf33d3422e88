"""What is made from the declaration of a change: reader, stored form, texts."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from datetime import UTC, datetime
from typing import Any

import pytest

import pools.domain.changes
import scheduling.domain.changes
from pools.api.changes import describe_change
from pools.api.schema import NULL, TEXT, object_with
from pools.domain.changes.backends import BACKEND_KEYS, PutBackend
from pools.domain.changes.cohorts import DeleteCohort
from pools.domain.changes.command import ChangeCommand, body_fields, read_command, summary_of
from pools.domain.changes.gpu_allocations import AdjustWorker, AllocateWorker
from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.domain.changes.notices import (
    MarkRead,
)
from pools.domain.changes.pools import DeletePool
from pools.domain.changes.subpools import (
    CreateSubpool,
    DeleteSubpool,
    ResizeSubpool,
)
from pools.domain.changes.tokens import CreateToken
from pools.domain.changes.users import (
    RevokeRole,
)
from pools.domain.configuration.backend_config import SIMULATED_KEYS
from pools.domain.configuration.cluster_config import KEYS
from pools.domain.errors import BadInput
from pools.domain.gpu_quota.workers import GpuAmounts
from pools.domain.structured_input.declared_values import fields_of, query_fields
from pools.domain.values.quantities import parse_quantity

WHERE = {"parent": "team", "subpool_name": "a"}
AMOUNTS = GpuAmounts(parse_quantity("10"), parse_quantity("1Gi"))
NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)


def declared_changes() -> list[type[ChangeCommand]]:
    """Each change of both apps that is no base of others."""
    for package in (pools.domain.changes, scheduling.domain.changes):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    found, kinds = [], [ChangeCommand]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if not kind.__subclasses__() and kind.__module__.startswith(("pools.", "scheduling.")):
            found.append(kind)
    return sorted(found, key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", declared_changes())
def test_every_field_has_its_sentence(kind: type[ChangeCommand]) -> None:
    assert summary_of(kind).endswith(".")
    for name, about in fields_of(kind).items():
        assert about.label, name
        assert about.help.endswith("."), name


def test_every_key_of_a_backend_has_its_sentence_and_is_read() -> None:
    assert set(BACKEND_KEYS) | {"description"} == {
        "type",
        "namespace",
        "description",
        "flavors",
        "offline",
        *SIMULATED_KEYS,
        *KEYS,
    }
    assert all(about.label and about.help.endswith(".") for about in BACKEND_KEYS.values())


def test_a_secret_is_in_no_stored_form_and_no_repr() -> None:
    command = PutBackend(name="east", body={"kubeconfig": "token: s3cret"})
    assert "s3cret" not in f"{command!r} {command.as_json()}"
    assert command.as_json() == {"name": "east"}


def test_all_faults_of_a_body_are_found_at_once() -> None:
    with pytest.raises(BadInput) as refusal:
        read_command(ResizeSubpool, {"quot": 1, "until": 3}, WHERE)
    assert [(fault.path, fault.code) for fault in refusal.value.details] == [
        ("quot", "unknown_key"),
        ("until", "bad_value"),
        ("quota", "missing"),
    ]


def test_null_is_the_same_as_no_value() -> None:
    assert read_command(DeleteSubpool, {"cancel_pending": None, "drain_by": None}, WHERE) == DeleteSubpool(**WHERE)


@pytest.mark.parametrize(
    "command",
    [
        CreateSubpool(parent="team", subpool_name="a", quota="25%"),
        ResizeSubpool(parent="team", subpool_name="a", quota=3, until=NOON),
        DeleteSubpool(parent="team", subpool_name="a", cancel_pending=True),
        AllocateWorker(namespace="team-a", id="w1", request=AMOUNTS, limit=AMOUNTS, count=2),
        AdjustWorker(namespace="team-a", id="w1", limit={"vram": parse_quantity("1Gi")}),
    ],
)
def test_the_stored_form_is_read_back(command: Any) -> None:
    assert type(command).from_json(command.as_json()) == command


def test_a_stored_request_without_a_newer_field_is_read_with_its_default() -> None:
    stored = {"parent": "team", "subpool_name": "a", "quota": 3}
    assert ResizeSubpool.from_json(stored).until is None


def test_a_stored_request_with_an_unknown_field_is_refused() -> None:
    with pytest.raises(BadInput):
        ResizeSubpool.from_json({**WHERE, "quota": 3, "colour": "red"})


def test_a_changed_meaning_is_brought_up_to_date() -> None:
    @dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
    class Renewed(ResizeSubpool):
        """A later form, which counts in pairs."""

        format = 2

        @classmethod
        def upgrade(cls, stored: Any, stored_format: int) -> Any:
            return {"quota": stored["quota"] * 2} if stored_format < 2 else {}

    assert Renewed.from_json({**WHERE, "quota": 3}, 1).quota == 6
    assert Renewed.from_json({**WHERE, "quota": 3}, 2).quota == 3


def test_the_address_is_no_part_of_the_body() -> None:
    assert set(body_fields(ResizeSubpool)) == {"quota", "quotas", "until"}
    assert not body_fields(DeleteCohort)
    assert set(query_fields(DeleteCohort)) == {"orphan"}
    assert set(body_fields(CreateSubpool)) == {"subpool_name", "quota", "quotas"}


def test_a_missing_value_says_what_to_give_where_its_name_does_not() -> None:
    with pytest.raises(BadInput, match=r"^spec is missing: give the caps as total and single\.$"):
        read_command(PutGpuQuota, {}, {"namespace": "team-a"})


@pytest.mark.parametrize(
    ("kind", "notes"),
    [
        (DeletePool, {"description", "tags"}),
        (RevokeRole, {"description"}),
        (MarkRead, set()),  # the audit trail has nothing of it
        (CreateToken, set()),  # its description is that of the token, in the query
    ],
)
def test_what_accompanies_a_change_is_described(kind: type[ChangeCommand], notes: set[str]) -> None:
    described: Any = describe_change(kind, answer=NULL)(lambda: None)
    body = described.documentation.body
    assert (set() if body is None else set(body["properties"])) == notes


def test_a_body_of_its_own_has_the_notes_too_where_more_may_follow() -> None:
    open_body, closed_body = (object_with({"configs": TEXT}, required=[], additional=more) for more in (True, False))
    for body, keys in ((open_body, {"configs", "description", "tags"}), (closed_body, {"configs"})):
        described: Any = describe_change(DeletePool, answer=NULL, body=body)(lambda: None)
        assert set(described.documentation.body["properties"]) == keys
