"""Quotas of subpools as a CSV file."""

from __future__ import annotations

import pytest

from pools.domain.configuration.quota_file import MAX_FILE_LENGTH, format_quota_file, parse_quota_file
from pools.domain.errors import BadInput
from pools.domain.list_columns import POOL_COLUMNS
from pools.domain.quota.pool_balance import PoolBalance, Subpool, pool_quotas_violation
from pools.domain.subpool_lifecycle import SubpoolState


def test_an_edited_export_can_be_read() -> None:
    """The list of pools as CSV has more columns, and lines of pools, remainders and draining subpools."""
    read = parse_quota_file(
        "\ufeffpool,subpool,kind,backend,state,quota,used\n"
        "team,,pool,sim,ONLINE,100,0\n"
        "team,,shared,sim,,50,0\n"
        "team,a,subpool,sim,ACTIVE,25%,0\n"
        "\n"
        "team,b,subpool,sim,DELETING,0,0\n"
        "other,c,subpool,sim,ACTIVE, 4 ,0\n"
    )
    assert read.quotas == {"team--a": "25%", "other--c": "4"}
    assert read.lines == {"team--a": 4, "other--c": 7}
    assert read.left_out == 3


def test_each_column_of_the_list_of_pools_is_allowed() -> None:
    columns = [column.key for column in POOL_COLUMNS.values() if column.value]
    cells = {"pool": "team", "subpool": "a", "quota": "4", "state": "ACTIVE"}
    text = f"{','.join(columns)}\n{','.join(cells.get(key, '') for key in columns)}\n"
    assert parse_quota_file(text).quotas == {"team--a": "4"}


def test_columns_without_a_name_and_values_are_left_out() -> None:
    """Spreadsheets write them."""
    assert parse_quota_file("pool,subpool,quota,,\nteam,a,4,,\n").quotas == {"team--a": "4"}


def test_what_is_written_is_read_again() -> None:
    written = format_quota_file({("team", "a"): 3, ("team", "b"): 0})
    assert written == "pool,subpool,quota\nteam,a,3\nteam,b,0\n"
    assert parse_quota_file(written).quotas == {"team--a": "3", "team--b": "0"}


def test_quotas_by_flavor_have_a_line_for_each() -> None:
    written = format_quota_file({("team", "a"): {"h100": 3, "a100": 5}, ("plain", "b"): 2})
    assert written == "pool,subpool,quota,flavor\nteam,a,3,h100\nteam,a,5,a100\nplain,b,2,\n"
    read = parse_quota_file(written)
    assert read.quotas == {"team--a": {"h100": "3", "a100": "5"}, "plain--b": "2"}
    assert read.lines == {"team--a": 2, "plain--b": 4}


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ("team,a,3,h100\nteam,a,4,h100\n", "team--a with the flavor h100 again, after line 2"),
        ("team,a,3,\nteam,a,4,h100\n", "team--a with the flavor h100 again, after line 2"),
        ("team,a,3,h100\nteam,a,4,\n", "team--a again, after line 2"),
    ],
)
def test_a_flavor_that_a_file_names_twice_is_refused(rows: str, fault: str) -> None:
    with pytest.raises(BadInput) as refusal:
        parse_quota_file(f"pool,subpool,quota,flavor\n{rows}")
    assert fault in refusal.value.message


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("", [(1, "no column pool and no column subpool and no column quota")]),
        ("pool,quota\nteam,3\n", [(1, "no column subpool")]),
        ("pool,subpool,quota\n", [(1, "no line of an ACTIVE subpool")]),
        (
            "pool,subpool,quota\nteam,a\nteam,b,3\nteam,b,4\n",
            [(2, "fewer than"), (4, "names team--b again, after line 3")],
        ),
        ("pool,subpool,quota\nteam,a,1,000\nteam,b,2,\n", [(2, "more than the first line")]),
        ("pool,subpool,quota,Quota\nteam,a,1,2\n", [(1, "the column quota twice")]),
        ("pool,subpool,quota,flavor,flavor\nteam,a,1,h100,a100\n", [(1, "the column flavor twice")]),
        ("pool,subpool,quota,flavour\nteam,a,1,h100\n", [(1, 'Column 4 is not known. Did you mean "flavor"?')]),
        ("pool,subpool,quota,until\nteam,a,1,2026-12-01\n", [(1, "Columns are pool, subpool, quota, flavor")]),
        ("pool,subpool,quota,a1,b2\nteam,a,1,,\n", [(1, "Column 4 is not known"), (1, "Column 5 is not known")]),
        ("pool,subpool,quota,\nteam,a,1,000\n", [(2, "a value in column 4, which has no name")]),
        ("x" * (MAX_FILE_LENGTH + 1), [(1, "in parts")]),
        ('pool,subpool,quota\nteam,a,"3', []),
    ],
)
def test_every_fault_has_its_line(text: str, faults: list[tuple[int, str]]) -> None:
    if not faults:
        assert parse_quota_file(text).quotas == {"team--a": "3"}
        return
    with pytest.raises(BadInput) as refusal:
        parse_quota_file(text)
    assert [each.line for each in refusal.value.details] == [line for line, _ in faults]
    for each, (_, part) in zip(refusal.value.details, faults, strict=True):
        assert part in each.message


def test_the_quotas_together_stay_within_the_guarantee() -> None:
    parts = tuple(Subpool(name, SubpoolState.ACTIVE, quota) for name, quota in (("a", 30), ("b", 20)))
    balance = PoolBalance("team", 50, -1, parts)
    assert pool_quotas_violation(balance, {"a": 20, "b": 30}) is None
    found = pool_quotas_violation(balance, {"b": 23})
    assert found is not None
    assert dict(found.numbers) == {"requested": 53, "limit": 50}
    assert "Ask for 3 GPUs less" in found.message
