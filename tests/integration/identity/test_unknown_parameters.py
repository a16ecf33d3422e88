"""A parameter that an address does not have is reported by name, at each address of the API, and has no effect."""

from __future__ import annotations

import json
import re
import sys
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from django.urls import URLPattern, URLResolver, get_resolver

from pools.api.schema import describe_operation
from pools.api.views import View
from pools.domain.structured_input.declared_values import query_fields
from pools.filtersets.base import QueryFilterSet
from pools.models import AuditEntry
from tests.support.api_client import ApiClient
from tests.support.product_source import described_addresses

pytestmark = pytest.mark.django_db

METHODS = ("get", "post", "put", "patch", "delete")
READ = re.compile(r"""query_params\.get(?:list)?\("(\w+)"|(?:query|filter)_(?:\w+)\((?:self\.)?request, "(\w+)\"""")
NOTHING = describe_operation("")
VALUE = "Canary7value"
EXAMPLES = {"int": "1", "uuid": "0c6b7a0e-0000-4000-8000-000000000001"}


def _operations(entries: Any = None, prefix: str = "/") -> Iterator[tuple[str, str, Any]]:
    """(method, route, handler) of all views of the API, from the URL configuration."""
    for entry in get_resolver().url_patterns if entries is None else entries:
        route = f"{prefix}{entry.pattern}"
        if isinstance(entry, URLResolver):
            yield from _operations(entry.url_patterns, route)
        elif isinstance(entry, URLPattern) and issubclass(getattr(entry.callback, "view_class", object), View):
            yield from (
                (method.upper(), route, handler)
                for method in METHODS
                if (handler := getattr(entry.callback.view_class, method, None))
            )


OPERATIONS = list(_operations())


def _address(route: str) -> str:
    return re.sub(r"<(\w+):\w+>", lambda kind: EXAMPLES.get(kind[1], "x"), route)


def _warning(answer: Any) -> str:
    return b64decode(answer.headers.get("x-osmo-warning", "")).decode()


def test_each_operation_warns_of_a_parameter_that_it_does_not_have(admin: ApiClient) -> None:
    assert len(OPERATIONS) > 120
    wrong = []
    for method, route, handler in OPERATIONS:
        if not hasattr(handler, "documentation"):
            continue  # configuration that is not offered: each call of it is refused
        with_it, without = (admin(method, f"{_address(route)}{query}", {}) for query in (f"?Zzz={VALUE}", ""))
        text = _warning(with_it)
        if "Zzz is not a parameter of this address" not in text or VALUE in text + json.dumps(with_it.body):
            wrong.append((method, route, with_it.status, text))
        if with_it.status != without.status and method == "GET":
            wrong.append((method, route, with_it.status, without.status))
    assert wrong == []


def test_no_operation_runs_for_a_dry_run_that_it_does_not_have(admin: ApiClient) -> None:
    before, wrong = AuditEntry.objects.count(), []
    for method, route, handler in OPERATIONS:
        known = {query.name for query in getattr(handler, "documentation", NOTHING).query_parameters}
        if "dry_run" in known or not hasattr(handler, "documentation"):
            continue
        answer = admin(method, f"{_address(route)}?dry_run=True", {})
        named = [(each["path"], each["code"]) for each in (answer.body or {}).get("details", ())]
        if (answer.status, named) != (400, [("dry_run", "unknown_parameter")]):
            wrong.append((method, route, answer.status, answer.body))
    assert wrong == []
    assert AuditEntry.objects.count() == before


def test_each_operation_knows_the_parameters_of_the_openapi_file() -> None:
    paths = described_addresses()
    for method, route, handler in OPERATIONS:
        if (documented := getattr(handler, "documentation", None)) is None:
            continue
        listed = paths[re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", route)][method.lower()].get("parameters", [])
        names = [each["name"] for each in listed if each["in"] == "query"]
        assert names == [query.name for query in documented.query_parameters]


def _declared(kind: Any) -> set[str]:
    """The parameters that a question or a change declares; none of anything else."""
    is_declaration = (
        isinstance(kind, type) and is_dataclass(kind) and all("about" in each.metadata for each in fields(kind))
    )
    return set(query_fields(kind)) if is_declaration else set()


def test_each_parameter_that_is_read_is_documented() -> None:
    """A name that no operation documents is reported to have no effect, so none may be read or declared."""
    documented: dict[str, set[str]] = {}
    for _, _, handler in OPERATIONS:
        names = {query.name for query in getattr(handler, "documentation", NOTHING).query_parameters}
        documented.setdefault(handler.__module__, set()).update(names)
    everywhere, read = set().union(*documented.values()), 0
    for module, names in documented.items():
        source = Path(sys.modules[module].__file__ or "").read_text()
        found = {name for pair in READ.findall(source) for name in pair if name}
        found |= {name for kind in vars(sys.modules[module]).values() for name in _declared(kind)}
        read += len(found)
        assert found <= names, (module, found - names)
    assert read > 140
    for filters in QueryFilterSet.__subclasses__():
        assert set(filters.base_filters) <= everywhere, filters


def test_a_warning_names_the_nearest_parameter(admin: ApiClient) -> None:
    near = _warning(admin("GET", f"/api/workflow?limits={VALUE}&statuss=RUNNING"))
    assert 'limits is not a parameter of this address. Did you mean "limit"?' in near
    assert 'Did you mean "statuses"?' in near
    none = _warning(admin("GET", f"/api/workflow/x/compare/y?name={VALUE}"))
    assert none == (
        "WARNING: name is not a parameter of this address. It has no parameters: leave it out. It had no effect."
    )


def _single(handler: Any) -> list[str]:
    return [each.name for each in getattr(handler, "documentation", NOTHING).query_parameters if not each.is_list]


def test_each_operation_warns_of_a_parameter_that_it_reads_once_and_gets_twice(admin: ApiClient) -> None:
    tried, wrong = 0, []
    for method, route, handler in OPERATIONS:
        for name in _single(handler):
            answer = admin(method, f"{_address(route)}?{name}={VALUE}&{name}=", {})
            tried += 1
            if name == "dry_run":
                named = [(each["path"], each["code"]) for each in (answer.body or {}).get("details", ())]
                if (answer.status, named) != (400, [("dry_run", "repeated_parameter")]):
                    wrong.append((method, route, answer.status, answer.body))
            elif f"WARNING: {name} is given 2 times" not in _warning(answer) or VALUE in _warning(answer):
                wrong.append((method, route, name, answer.status, _warning(answer)))
    assert tried > 100
    assert wrong == []


def test_every_reader_finds_the_last_text_of_a_parameter_that_is_not_empty(admin: ApiClient) -> None:
    for query in ("limit=1&limit=x", "limit=1&limit=x&limit="):
        assert admin("GET", f"/api/audit?{query}").status == 400
        assert admin("GET", f"/api/queue?{query}").status == 400
    assert admin("GET", "/api/audit?limit=x&limit=1").status == 200
    assert "is given" not in _warning(admin("GET", "/api/workflow?pools=a&pools=b"))


def test_a_call_without_a_login_learns_no_parameters(anonymous: ApiClient) -> None:
    assert anonymous("GET", f"/api/workflow?Zzz={VALUE}").status == 401


def test_an_api_server_may_say_its_timeout(anonymous: ApiClient) -> None:
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {}}
    for kind in ("pod", "podgroup", "gpu_quota"):
        answer = anonymous("POST", f"/webhooks/{kind}?timeout=10s", review)
        assert _warning(answer) == ""
