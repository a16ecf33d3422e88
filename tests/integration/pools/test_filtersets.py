"""Filters of lists: each unreadable value is reported under the name of its parameter, all of them at once."""

from __future__ import annotations

from tests.support.api_client import ApiClient, Callers

UNREADABLE: list[tuple[str, list[tuple[str, str]]]] = [
    ("/api/audit", [("object", "team"), ("since", "soon"), ("until", "2026-13-01"), ("limit", "0")]),
    ("/api/configs/history", [("created_after", "x"), ("revision", "0"), ("order", "UP"), ("omit_data", "maybe")]),
    ("/api/auth/user", [("count", "-1"), ("start_index", "0")]),
    ("/api/configs/pool", [("include_archived", "maybe"), ("verbose", "2")]),
    ("/api/gpu_quota/team/allocation", [("include_released", "maybe"), ("offset", "-1")]),
    ("/api/gpu_quota/team/history", [("since", "yesterday")]),
    ("/api/workflow", [("statuses", "DONE"), ("priority", "TOP"), ("label", "x"), ("order", "UP"), ("limit", "x")]),
    ("/api/scheduler_events", [("action", "STOP"), ("since", "soon"), ("until", "x"), ("limit", "0")]),
    ("/api/task", [("statuses", "DONE"), ("started_after", "x"), ("summary", "maybe"), ("all_users", "maybe")]),
]


def test_all_unreadable_values_are_reported_at_once_and_an_empty_one_is_no_condition(admin: ApiClient) -> None:
    for address, query in UNREADABLE:
        answer = admin("GET", address, query=query)
        assert (answer.status, answer.codes) == (400, {(name, "bad_query") for name, _ in query}), address
        messages = [fault["message"] for fault in answer.body["details"]]
        assert all(any(f"{name}: give " in message for message in messages) for name, _ in query), address
        without, empty = admin("GET", address), admin("GET", address, query=[(name, "") for name, _ in query])
        assert (without.status, empty.status, empty.body.keys()) == (200, 200, without.body.keys()), address


def test_conditions_narrow_the_list_of_users(admin: ApiClient, caller: Callers) -> None:
    for name, roles in (("ann", ["osmo-viewer"]), ("anton", []), ("bea", ["osmo-viewer"])):
        caller(name, *roles)

    def names(**query: str | list[str]) -> list[str]:
        return [user["id"] for user in admin("GET", "/api/auth/user", query=query).body["users"]]

    assert names(id_prefix="an") == ["ann", "anton"]
    assert names(roles=["osmo-viewer", ""]) == ["ann", "bea"]
    assert names(id_prefix="an", roles="osmo-viewer") == ["ann"]
    assert names(id_prefix="") == ["ann", "anton", "bea", "root"]
