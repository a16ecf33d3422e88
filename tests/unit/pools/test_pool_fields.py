"""The keys of a pool are one table: what reads, writes and describes a configuration has all of them."""

from __future__ import annotations

import pytest

from pools.domain.audit_actions import AuditAction, audit_message
from pools.domain.configuration.pool_config import PoolSettings, editable_body, parse_pool
from pools.domain.configuration.pool_fields import EDITABLE_KEYS, POOL_FIELDS, pool_properties
from pools.domain.configuration.pool_flavors import SWITCHES
from scheduling.configuration.bodies import pool_body
from scheduling.configuration.schema import SCHEMA


def test_answer_and_schemas_have_the_same_keys() -> None:
    in_files = SCHEMA["properties"]["pools"]["additionalProperties"]["properties"]
    flavors = [{"flavor": "h100", "quota": 4}]
    assert tuple(editable_body(PoolSettings("sim", flavors=flavors))) == EDITABLE_KEYS == tuple(pool_properties())
    without = tuple(key for key in EDITABLE_KEYS if key not in SWITCHES)
    assert tuple(editable_body(PoolSettings("sim"))) == without, "the switches are those of pools with flavors"
    assert set(EDITABLE_KEYS) == set(in_files) - {"subpools", "subpools_owner"}


@pytest.mark.parametrize("field", POOL_FIELDS, ids=lambda field: field.key)
def test_a_key_has_its_sentence_and_its_default_is_read_back(field) -> None:  # type: ignore[no-untyped-def]
    assert field.label
    assert field.help.endswith((".", ")."))
    if field.read is not None:
        settings, faults = parse_pool({"backend": "sim", field.key: field.default})
        assert (faults, editable_body(settings)[field.key]) == ([], field.default)


@pytest.mark.parametrize("field", [each for each in POOL_FIELDS if each.read], ids=lambda field: field.key)
def test_the_audit_trail_tells_a_key_by_its_label(field) -> None:  # type: ignore[no-untyped-def]
    images = {"config": {}}, {"config": {field.key: 5}}
    message = audit_message(AuditAction.POOL_UPDATED, "pool/team", "root", *images)
    assert message == f"root updated pool team ({field.label}: nothing → 5)"


@pytest.mark.parametrize("key", ["approval_above", "hold_after", "borrowing_limit", "lending_limit"])
def test_a_file_keeps_a_limit_of_nothing(key: str) -> None:
    """0 is a limit: it is not left out as an empty value is."""
    settings, faults = parse_pool({"backend": "sim", "cohort": "org", key: 0})
    assert (faults, pool_body(settings)[key]) == ([], 0)
