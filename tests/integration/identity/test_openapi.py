"""The OpenAPI file says what is there, and the docs page reads it without a single inline script."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.test import Client
from django.urls import get_resolver

from osmo_admin.api_document.openapi_views import render_openapi

COMMITTED = Path(__file__).resolve().parents[3] / "docs" / "openapi.yaml"
METHODS = {"get", "post", "put", "patch", "delete"}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The file as it is generated now."""
    found: dict[str, Any] = yaml.load(render_openapi("yaml"), yaml.CSafeLoader)
    return found


def _operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    ]


def test_the_committed_file_is_the_generated_one() -> None:
    assert render_openapi("yaml").decode() == COMMITTED.read_text(), "docs/openapi.yaml is stale: make openapi"


def test_every_operation_has_its_own_id_and_says_what_it_does(document: dict[str, Any]) -> None:
    operations = _operations(document)
    ids = [operation["operationId"] for _, _, operation in operations]
    assert len(ids) == len(set(ids)) > 70
    assert not [path for path, _, operation in operations if not operation["summary"].endswith((".", "?"))]


def test_every_handler_is_documented_or_left_out_on_purpose(document: dict[str, Any]) -> None:
    missing = []
    for view in _views():
        if getattr(view, "schema", None) is None:
            continue
        missing += [
            f"{view.__module__}.{view.__name__}.{method}"
            for method in METHODS
            if (handler := getattr(view, method, None)) and not hasattr(handler, "documentation")
        ]
    assert missing == []


def test_an_answer_is_described_by_a_type() -> None:
    """A literal schema of an object would say again what its builder says."""
    handlers = [getattr(view, method, None) for view in _views() for method in METHODS]
    answers = [each.documentation.answer for each in handlers if hasattr(each, "documentation")]
    assert len(answers) > 100
    assert [each for each in answers if isinstance(each, dict) and each.get("type") in {"object", "array"}] == []


def _views() -> set[Any]:
    found, stack = set(), [get_resolver()]
    while stack:
        for pattern in stack.pop().url_patterns:
            if hasattr(pattern, "url_patterns"):
                stack.append(pattern)
            elif (view := getattr(pattern.callback, "view_class", None)) and view.__module__.startswith(
                ("pools.", "scheduling.", "osmo_admin.monitoring.metrics")
            ):
                found.add(view)
    return found


def test_every_address_below_api_is_in_the_file_or_left_out_on_purpose(document: dict[str, Any]) -> None:
    left_out = {"/api/schema", "/api/docs", "/api/configs/{kind}"}
    served = set()
    stack = [("/", each) for each in get_resolver().url_patterns if str(each.pattern) == "api/"]
    while stack:
        prefix, entry = stack.pop()
        route = prefix + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(entry.pattern))
        if hasattr(entry, "url_patterns"):
            stack += [(route, each) for each in entry.url_patterns]
        else:
            served.add(route)
    assert served
    assert served - left_out == {path for path in document["paths"] if path.startswith("/api/")}


def test_changes_can_be_tried_and_protected(document: dict[str, Any]) -> None:
    protected = set()
    for path, method, operation in _operations(document):
        headers = {each["name"] for each in operation.get("parameters", ()) if each["in"] == "header"}
        if operation["security"] and method == "post":
            assert "Idempotency-Key" in headers, path
        assert ("If-Match" in headers) is ("412" in operation["responses"]), path
        protected |= {path} if "If-Match" in headers else set()
    assert {"/api/configs/pool/{name}", "/api/configs/cohort/{name}", "/api/configs/gpu_quota/{namespace}"} <= protected
    assert "/api/notices/target/{target}" not in protected, "it has no version"


SUCCESS = {"200", "202"}


def test_errors_are_those_that_all_operations_share(document: dict[str, Any]) -> None:
    for path, method, operation in _operations(document):
        statuses = set(operation["responses"])
        if path in {"/health", "/ready", "/client/version"}:
            continue
        assert {"400", "503"} <= statuses
        names = {parameter["name"] for parameter in operation.get("parameters", [])}
        assert len(statuses & SUCCESS) == (2 if "request_approval" in names else 1), (method, path)
        if operation["security"]:
            assert {"401", "403"} <= statuses, (method, path)
        for status, answer in operation["responses"].items():
            assert status in SUCCESS or answer == {"$ref": f"#/components/responses/{status}"}


def test_anybody_may_read_it(client: Client) -> None:
    as_yaml, as_json = client.get("/api/schema"), client.get("/api/schema?format=json")
    assert yaml.load(as_yaml.content, yaml.CSafeLoader) == as_json.json()
    assert as_json.json()["openapi"].startswith("3.")
    assert client.get("/api/schema", headers={"Accept": "application/json"}).json() == as_json.json()


def test_the_page_loads_only_own_files_and_no_inline_script(client: Client) -> None:
    page = client.get("/api/docs/try")
    assert page.status_code == 200
    text = page.content.decode()
    assert re.findall(r"<script(?![^>]*\bsrc=)", text) == []
    assert all(address.startswith("/") for address in re.findall(r'(?:src|href)="([^"]+)"', text))
    assert '<a class="link" href="/api/docs">' in text, "the way back to the pages"
    script = client.get("/api/docs/try?script=")
    assert script.headers["Content-Type"].startswith("application/javascript")
    assert "/api/schema" in script.content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/api/docs", "/api/docs/get_audit", "/api/docs/try"])
def test_the_page_also_opens_with_a_login_that_has_ended(client: Client, path: str) -> None:
    assert client.get(path, headers={"Authorization": "Bearer a.b.c"}).status_code == 200


@pytest.mark.django_db
def test_the_reference_has_a_line_and_a_page_for_each_operation(client: Client) -> None:
    document = client.get("/api/schema?format=json").json()
    text = client.get("/api/docs").content.decode()
    names = [each["operationId"] for methods in document["paths"].values() for each in methods.values()]
    assert [f'href="/api/docs/{name}"' for name in names if f'href="/api/docs/{name}"' not in text] == []
    assert f"{len(names)} operations" in text
    nothing = client.get("/api/docs/get_nothing")
    assert nothing.status_code == 404
    assert "Signed in as" not in nothing.content.decode(), "nobody is"


@pytest.mark.django_db
def test_the_page_of_an_operation_has_its_parameters_its_body_and_its_answers(client: Client) -> None:
    text = client.get("/api/docs/post_configs_pool_parent_subpool").content.decode()
    assert "Idempotency-Key" in text and "subpool_name" in text and "curl -X POST --globoff" in text
    assert "The state of the object or a concurrent change forbids it" in text
