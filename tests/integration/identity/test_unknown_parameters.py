"""A parameter that an address does not have is refused by name, at each address of the API."""

from __future__ import annotations

import json
import re
import sys
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from osmo_admin.openapi_views import render_openapi
from pools.api.schema import OperationDescription
from pools.api.views import View
from pools.filtersets.base import QueryFilterSet
from pools.models import AuditEntry
from tests.integration.identity.conftest import ApiCaller
from tests.support.stock_client import HEADERS as STOCK_HEADERS

pytestmark = pytest.mark.django_db

METHODS = ("get", "post", "put", "patch", "delete")
READ = re.compile(r"""query_params\.get(?:list)?\("(\w+)"|(?:query|filter)_(?:\w+)\((?:self\.)?request, "(\w+)\"""")
NOTHING = OperationDescription("")
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


def test_each_operation_refuses_a_parameter_that_it_does_not_have(admin: ApiCaller) -> None:
    assert len(OPERATIONS) > 120
    before, wrong = AuditEntry.objects.count(), []
    for method, route, handler in OPERATIONS:
        if not hasattr(handler, "documentation"):
            continue  # configuration that is not offered: each call of it is refused
        answer = admin(method, f"{_address(route)}?Zzz={VALUE}", {})
        named = [(each["path"], each["code"]) for each in (answer.body or {}).get("details", ())]
        if answer.status != 400 or named != [("Zzz", "unknown_parameter")] or VALUE in json.dumps(answer.body):
            wrong.append((method, route, answer.status, answer.body))
    assert wrong == []
    assert AuditEntry.objects.count() == before


def test_each_operation_knows_the_parameters_of_the_openapi_file(admin: ApiCaller) -> None:
    paths = yaml.safe_load(render_openapi("yaml"))["paths"]
    for method, route, handler in OPERATIONS:
        if (documented := getattr(handler, "documentation", None)) is None:
            continue
        listed = paths[re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", route)][method.lower()].get("parameters", [])
        names = [each["name"] for each in listed if each["in"] == "query"]
        assert names == [query.name for query in documented.query_parameters]
        answer = admin(method, f"{_address(route)}?Zzz={VALUE}", {})
        for name in names:
            assert name in answer.body["message"], (method, route)


def test_each_parameter_that_is_read_is_documented() -> None:
    """A name that no operation documents is refused, so reading it would be without use."""
    documented: dict[str, set[str]] = {}
    for _, _, handler in OPERATIONS:
        names = {query.name for query in getattr(handler, "documentation", NOTHING).query_parameters}
        documented.setdefault(handler.__module__, set()).update(names)
    everywhere, read = set().union(*documented.values()), 0
    for module, names in documented.items():
        source = Path(sys.modules[module].__file__ or "").read_text()
        found = {name for pair in READ.findall(source) for name in pair if name}
        read += len(found)
        assert found <= names, (module, found - names)
    assert read > 40
    for filters in QueryFilterSet.__subclasses__():
        assert set(filters.base_filters) <= everywhere, filters


def test_a_refusal_names_the_nearest_parameter(admin: ApiCaller) -> None:
    near = admin("GET", f"/api/workflow?limits={VALUE}&statuss=RUNNING")
    assert near.status == 400
    assert [each["path"] for each in near.body["details"]] == ["limits", "statuss"]
    assert 'Did you mean "limit"?' in near.body["details"][0]["message"]
    assert 'Did you mean "statuses"?' in near.body["details"][1]["message"]
    none = admin("GET", f"/api/workflow/x/compare/y?name={VALUE}")
    assert none.body["details"][0]["message"] == (
        "name is not a parameter of this address. It has no parameters: leave it out."
    )


def test_a_dry_run_of_a_call_that_has_none_changes_nothing(admin: ApiCaller) -> None:
    answer = admin("POST", "/api/notices/target/1/test?dry_run=True", {})
    assert (answer.status, answer.body["details"][0]["path"]) == (400, "dry_run")


def test_a_call_without_a_login_learns_no_parameters(anonymous: ApiCaller) -> None:
    assert anonymous("GET", f"/api/workflow?Zzz={VALUE}").status == 401


def test_an_api_server_may_say_its_timeout(anonymous: ApiCaller) -> None:
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {}}
    for kind in ("pod", "podgroup", "gpu_quota"):
        answer = anonymous("POST", f"/webhooks/{kind}?timeout=10s", review)
        assert "unknown_parameter" not in {each["code"] for each in answer.body["details"]}


def test_the_stock_client_is_warned_and_served(admin: ApiCaller) -> None:
    """A later release of OSMO's client may send parameters that this service does not know yet."""
    answer = ApiCaller(admin.token, dict(STOCK_HEADERS))("GET", f"/api/pool?Zzz={VALUE}&all_pools=True")
    assert answer.status == 200
    warning = b64decode(answer.headers["x-osmo-warning"]).decode()
    assert "Zzz is not a parameter of this address" in warning
    assert VALUE not in warning


@pytest.mark.parametrize(
    ("address", "known"),
    [
        ("/api/docs", "script"),
        ("/health", "It has no parameters"),
        ("/ready", "only"),
        ("/client/version", "It has no parameters"),
        ("/api/schema", "format"),
        ("/api/schema/configuration.json", "It has no parameters"),
    ],
)
def test_the_plain_addresses_refuse_it_as_well(client: Client, address: str, known: str) -> None:
    answer = client.get(f"{address}?Zzz={VALUE}")
    assert answer.status_code == 400
    text = answer.content.decode()
    assert "Zzz" in text
    assert known in text
    assert VALUE not in text
