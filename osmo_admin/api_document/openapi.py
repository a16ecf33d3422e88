"""The OpenAPI file: the descriptions of the views (:mod:`pools.api.schema`), and the parts that all of them share."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

from drf_spectacular.openapi import AutoSchema as SpectacularSchema

from osmo_admin.api_document.answer_schema import schema_of
from osmo_admin.monitoring.health import HealthAnswer, ReadyAnswer
from pools.api.schema import BOOLEAN, DRY_RUN, REQUEST_APPROVAL, TEXT, QueryParameter, describe_operation
from pools.api.version import VersionAnswer
from pools.domain.errors import ErrorAnswer, Fault
from pools.representations.approval import ApprovalAnswer
from pools.services.changes.dry_run import EffectAnswer

ERROR_DESCRIPTIONS = {
    400: "The request breaks rules of form, name or quota; `details` lists all of them.",
    401: "The request has no login, or the login has ended.",
    403: "You may see the object, but you may not change it this way.",
    404: "The object does not exist, or you may not see it.",
    409: "The state of the object or a concurrent change forbids it; or another request used the Idempotency-Key.",
    412: "The object has changed since you read it (`If-Match`).",
    415: "The body is compressed, or the Content-Type cannot be read or names another charset than UTF-8.",
    429: "Too many attempts; wait as long as `Retry-After` says.",
    503: "A lock or a dependency did not answer in time. Nothing was changed; try again after `Retry-After`.",
}
CHANGING_METHODS = {"POST", "PUT", "PATCH", "DELETE"}
COMPONENTS = {
    "schemas": {
        "Error": schema_of(ErrorAnswer),
        "DryRun": schema_of(EffectAnswer),
        "Approval": schema_of(ApprovalAnswer),
        "Fault": {"type": "string", "enum": list(Fault), "description": "The meanings: docs/error-codes.md."},
    },
    "responses": {
        str(status): {
            "description": description,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
        }
        for status, description in ERROR_DESCRIPTIONS.items()
    },
    "securitySchemes": {
        "bearer": {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "JWT",
            "description": "From `POST /api/auth/jwt/access_token`; lasts five minutes.",
        },
        "session": {
            "type": "apiKey",
            "in": "cookie",
            "name": "sessionid",
            "description": "The browser's login. Changes also need the header `X-CSRFToken`.",
        },
    },
}
DESCRIPTION = """\
Guaranteed GPU quotas for subpools (parts of a pool), admission, drain, and an audit log. OSMO's endpoints keep
OSMO's wire contract.

Success is 200 with JSON (`null` where there is nothing to say). Times are UTC without a zone. Booleans of a query may
be written `True` and `False`. A key that a body does not know is refused; `description` and `tags` are allowed on every
change and say why it was made. `dry_run=True` answers the effect of a change and writes nothing. A POST with an
`Idempotency-Key` is done once however often it is sent; `If-Match` with the quoted `version` protects from changing
what another client has changed.
"""


class AutoSchema(SpectacularSchema):
    """An operation from its handler's documentation, with the parameters and errors that all operations share."""

    def get_operation(self, path: str, path_regex: str, path_prefix: str, method: str, registry: Any) -> Any:
        if self.is_excluded():
            return None
        documented: describe_operation = getattr(self.view, method.lower()).documentation
        operation: dict[str, Any] = {
            "operationId": _operation_id(method, path),
            "summary": documented.summary,
            **({"description": documented.details} if documented.details else {}),
            "tags": [_tag(path)],
            "security": [] if documented.is_anonymous else [{"bearer": []}, {"session": []}],
            "responses": _responses(documented, method, path),
        }
        if parameters := _parameters(documented, method, path, path_regex):
            operation["parameters"] = parameters
        if documented.body is not None:
            operation["requestBody"] = {
                "required": bool(documented.body.get("required")),
                "content": {"application/json": {"schema": dict(documented.body)}},
            }
        return operation


def _operation_id(method: str, path: str) -> str:
    words = re.sub(r"[^A-Za-z0-9]+", "_", path.removeprefix("/api")).strip("_")
    return f"{method.lower()}_{words}"


def _tag(path: str) -> str:
    """The subject of an operation: the first segment of the path after `api` and `configs`."""
    return next((part for part in path.split("/") if part not in {"", "api", "configs"}), "installation")


def _parameters(documented: describe_operation, method: str, path: str, route: str) -> list[dict[str, Any]]:
    numbers = set(re.findall(r"<int:(\w+)>", route))
    found: list[dict[str, Any]] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "integer", "minimum": 0} if name in numbers else {"type": "string", "minLength": 1},
        }
        for name in re.findall(r"{(\w+)}", path)
    ]
    found += [_query(query) for query in documented.query_parameters]
    if method == "POST" and not documented.is_anonymous:
        found.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "description": "The first success under this key is answered again for 24 hours.",
                "schema": {"type": "string", "minLength": 1, "maxLength": 255},
            }
        )
    if documented.has_version:
        found.append(
            {
                "name": "If-Match",
                "in": "header",
                "required": False,
                "description": "The version that the object must still have, quoted as in `ETag`; `*` for any.",
                "schema": {"type": "string"},
            }
        )
    return found


def _query(query: QueryParameter) -> dict[str, Any]:
    schema = dict(query.schema)
    if schema == BOOLEAN:
        schema = {"type": "string", "enum": ["True", "False", "true", "false"]}
    return {
        "name": query.name,
        "in": "query",
        "required": query.is_required,
        "description": query.description,
        "schema": {"type": "array", "items": schema} if query.is_list else schema,
    }


def _responses(documented: describe_operation, method: str, path: str) -> dict[str, Any]:
    statuses = {400, 415, 503, *documented.extra_statuses}
    if not documented.is_anonymous:
        statuses |= {401, 403}
    if "{" in path:
        statuses.add(404)
    if method in CHANGING_METHODS and not documented.is_anonymous:
        statuses |= {404, 409}
    if documented.has_version:
        statuses.add(412)
    answer = {} if documented.answer is None else schema_of(documented.answer)
    if DRY_RUN in documented.query_parameters:
        answer = {"anyOf": [answer, {"$ref": "#/components/schemas/DryRun"}]}
    contents = {documented.media_type: answer, **dict.fromkeys(documented.text_types, TEXT)}
    good = {
        "description": HTTPStatus(documented.status).phrase,
        "content": {media_type: {"schema": schema} for media_type, schema in contents.items()},
    }
    refusals = {
        str(status): {"$ref": f"#/components/responses/{status}"}
        for status in statuses - set(documented.excluded_statuses)
    }
    requested = {}
    if REQUEST_APPROVAL in documented.query_parameters:
        content = {"application/json": {"schema": {"$ref": "#/components/schemas/Approval"}}}
        requested = {"202": {"description": "The request for the approval of a second person.", "content": content}}
    return {str(documented.status): good, **requested, **dict(sorted(refusals.items()))}


def complete(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """A hook of the generator: the shared parts of all operations, and the addresses of probes (plain views)."""
    result["info"]["description"] = DESCRIPTION
    result["components"] = COMPONENTS
    ready = _json_response(ReadyAnswer)
    version = _json_response(VersionAnswer)
    plain = {
        "/health": ("health", "Is the process alive?", {"200": _json_response(HealthAnswer)}),
        "/ready": ("ready", "Can the installation do its work?", {"200": ready, "503": ready}),
        "/client/version": ("client_version", "The client release to install.", {"200": version}),
    }
    for path, (name, summary, responses) in plain.items():
        operation = {"operationId": name, "summary": summary, "tags": ["operations"], "responses": responses}
        result["paths"][path] = {"get": {**operation, "security": []}}
    return result


def _json_response(schema: Any) -> dict[str, Any]:
    return {"description": "OK", "content": {"application/json": {"schema": schema_of(schema)}}}
