"""The official client behind the port: the one module of the house that imports it.

Only its connection is used (addresses, TLS, credentials and their renewal); paths, bodies and answers are ours, so that
every kind is treated alike and nothing is asked of the API server but what the caller asked for. It does not repeat
calls by itself: whoever called knows whether that is right.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import urllib3
from kubernetes import client as official
from kubernetes import config as official_config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException

from scheduling.domain.kubernetes_json import Object
from scheduling.kube import errors
from scheduling.kube.cluster_access import ClusterAccess, InClusterAccess
from scheduling.kube.errors import ClusterError, FieldError
from scheduling.kube.port import (
    CALL_TIMEOUT_SECONDS,
    CONNECT_TIMEOUT_SECONDS,
    PAGE_SIZE,
    ObjectList,
    ResourceKind,
    WatchEvent,
    WatchEventType,
)

JSON_TYPE = "application/json"
APPLY_PATCH_TYPE = "application/apply-patch+yaml"
MERGE_PATCH_TYPE = "application/merge-patch+json"
_CHUNK = 65_536
_MOST_RELISTS = 3
_LONGEST_SENTENCE = 500


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long we wait, in seconds: for a connection, for a whole answer, for the next word of a watch.

    An API server sends a bookmark about once a minute, so a watch that is silent for longer is dead.
    """

    connect: float = CONNECT_TIMEOUT_SECONDS
    call: float = CALL_TIMEOUT_SECONDS
    watch_silence: float = 75.0


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: bytes
    retry_after: float | None


class KubernetesCluster:
    """:class:`scheduling.kube.port.Cluster` over HTTPS. `access` says where and who."""

    def __init__(self, access: ClusterAccess, *, timeouts: Timeouts = Timeouts()) -> None:
        self._limits = timeouts
        settings = official.Configuration()
        settings.retries = False
        settings.connection_pool_maxsize = 8
        try:
            if isinstance(access, InClusterAccess):
                official_config.load_incluster_config(client_configuration=settings)
            else:
                official_config.load_kube_config_from_dict(
                    access.content, context=access.context or None, client_configuration=settings, persist_config=False
                )
        except (ConfigException, ValueError, TypeError, LookupError, AttributeError, OSError) as error:
            raise errors.BadCredentials(_first_words(error)) from error
        self._api = official.ApiClient(settings)
        self._api.user_agent = "osmo-admin"

    def version(self) -> str:
        """See the port."""
        return str(self._json("GET", "/version")["gitVersion"])

    def list(
        self,
        kind: ResourceKind,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        page_size: int = PAGE_SIZE,
        transform: Callable[[Object], Any] | None = None,
    ) -> ObjectList:
        """See the port."""
        query = _selected(labels, fields) | {"limit": str(page_size)}
        for attempt in range(_MOST_RELISTS):
            try:
                return self._list(kind, namespace, query, transform)
            except errors.ResourceVersionExpired:
                if attempt == _MOST_RELISTS - 1:
                    raise
        raise AssertionError("the loop above returns or raises")

    def _list(
        self, kind: ResourceKind, namespace: str | None, query: Mapping[str, str], keep: Callable[[Object], Any] | None
    ) -> ObjectList:
        items: list[Any] = []
        more: dict[str, str] = {}
        while True:
            body = self._json("GET", _path(kind, namespace), {**query, **more})
            for item in body.get("items") or []:
                found = _named(kind, item)
                items.append(found if keep is None else keep(found))
            if not body["metadata"].get("continue"):
                return ObjectList(items, body["metadata"]["resourceVersion"])
            more = {"continue": body["metadata"]["continue"]}

    def watch(
        self,
        kind: ResourceKind,
        *,
        resource_version: str,
        timeout_seconds: float,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
    ) -> Iterator[WatchEvent]:
        """See the port."""
        query = _selected(labels, fields) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(max(1, round(timeout_seconds))),
        }
        silence = min(self._limits.watch_silence, timeout_seconds + self._limits.call)
        with self._open("GET", _path(kind, namespace), query, read_seconds=silence) as response:
            if response.status != 200:
                raise _error(_whole(response, time.monotonic() + self._limits.call))
            for line in _lines(response):
                yield _event(kind, line)

    def get(self, kind: ResourceKind, name: str, *, namespace: str | None = None) -> Object:
        """See the port."""
        return _named(kind, self._json("GET", _path(kind, namespace, name)))

    def apply(
        self,
        kind: ResourceKind,
        body: Object,
        *,
        field_manager: str,
        force: bool = False,
        dry_run: bool = False,
        status: bool = False,
    ) -> Object:
        """See the port."""
        metadata = body["metadata"]
        path = _path(kind, metadata.get("namespace"), metadata["name"], status=status)
        query = {"fieldManager": field_manager, "force": "true" if force else "false"} | _dry(dry_run)
        return _named(kind, self._json("PATCH", path, query, _named(kind, body), APPLY_PATCH_TYPE))

    def create(self, kind: ResourceKind, body: Object, *, field_manager: str, dry_run: bool = False) -> Object:
        """See the port."""
        path = _path(kind, body["metadata"].get("namespace"))
        return _named(
            kind, self._json("POST", path, {"fieldManager": field_manager} | _dry(dry_run), _named(kind, body))
        )

    def merge(
        self,
        kind: ResourceKind,
        name: str,
        patch: Mapping[str, Any],
        *,
        field_manager: str,
        namespace: str | None = None,
        status: bool = False,
    ) -> Object:
        """See the port."""
        path = _path(kind, namespace, name, status=status)
        return _named(kind, self._json("PATCH", path, {"fieldManager": field_manager}, dict(patch), MERGE_PATCH_TYPE))

    def delete(
        self,
        kind: ResourceKind,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        """See the port."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if conditions := {k: v for k, v in (("uid", uid), ("resourceVersion", resource_version)) if v is not None}:
            options["preconditions"] = conditions
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        self._json("DELETE", _path(kind, namespace, name), {}, options)

    def close(self) -> None:
        """See the port."""
        self._api.close()

    def _json(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        content_type: str = JSON_TYPE,
    ) -> Object:
        """One call, answered in JSON within the limit, or the error that the answer means."""
        deadline = time.monotonic() + self._limits.call
        with self._open(method, path, query or {}, body, content_type, read_seconds=self._limits.call) as response:
            answer = _whole(response, deadline)
        if not 200 <= answer.status < 300:
            raise _error(answer)
        try:
            found = json.loads(answer.body)
        except ValueError as error:
            raise errors.ServerError("The answer was no JSON; is this a Kubernetes API server?") from error
        if not isinstance(found, dict):
            raise errors.ServerError("The answer was no JSON object; is this a Kubernetes API server?")
        return found

    @contextmanager
    def _open(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Object | None = None,
        content_type: str = JSON_TYPE,
        *,
        read_seconds: float,
    ) -> Iterator[Any]:
        """Send a request and hand out the response, unread. What the network does wrong is Unreachable."""
        headers = {"Accept": JSON_TYPE} | ({"Content-Type": content_type} if body is not None else {})
        try:
            request = self._api.param_serialize(
                method,
                path,
                query_params=list(query.items()),
                header_params=headers,
                body=body,
                auth_settings=["BearerToken"],
            )
        except (ConfigException, OSError) as error:  # a credential that is renewed for the call
            raise errors.BadCredentials(_first_words(error)) from error
        response = None
        try:
            response = self._api.call_api(*request, _request_timeout=(self._limits.connect, read_seconds)).response
            yield response
        except ApiException as error:  # the client's own: TLS
            raise errors.Unreachable(f"TLS failed: {_first_words(error.reason)}") from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise errors.Unreachable(_network_words(error)) from error
        finally:
            if response is not None:
                # A response that was read to its end has given its connection back; any other ends with it.
                response.close()


def _path(kind: ResourceKind, namespace: str | None, name: str | None = None, *, status: bool = False) -> str:
    parts = ["apis", kind.group, kind.version] if kind.group else ["api", kind.version]
    if kind.namespaced and namespace is not None:
        parts += ["namespaces", namespace]
    parts.append(kind.plural)
    if name is not None:
        parts.append(name)
    if status:
        parts.append("status")
    return "/" + "/".join(parts)


def _named(kind: ResourceKind, item: Object) -> Object:
    """Lists of built-in kinds leave these two out of their items."""
    return {"apiVersion": kind.api_version, "kind": kind.name} | item


def _selected(labels: str, fields: str) -> dict[str, str]:
    return {key: text for key, text in (("labelSelector", labels), ("fieldSelector", fields)) if text}


def _dry(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}


def _whole(response: Any, deadline: float) -> _Answer:
    """The whole body, in time also when it only drips."""
    chunks = []
    while chunk := response.read1(_CHUNK, decode_content=True):
        chunks.append(chunk)
        if time.monotonic() > deadline:
            raise errors.Unreachable("The API server's answer did not end in time.")
    return _Answer(response.status, b"".join(chunks), _seconds(response.headers.get("Retry-After")))


def _seconds(text: str | None) -> float | None:
    return float(text) if text and text.isascii() and text.isdigit() else None


def _lines(response: Any) -> Iterator[bytes]:
    rest = b""
    for chunk in response.stream(None, decode_content=True):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line for line in lines if line.strip())


def _event(kind: ResourceKind, line: bytes) -> WatchEvent:
    try:
        said = json.loads(line)
        what, content = said["type"], said["object"]
    except (ValueError, KeyError, TypeError) as error:
        raise errors.Unreachable("The watch broke off in the middle of a word.") from error
    if what == "ERROR":
        raise _error(_Answer(int(content.get("code") or 500), _as_body(content), None))
    return WatchEvent(WatchEventType(what), _named(kind, content), content["metadata"]["resourceVersion"])


def _as_body(content: Object) -> bytes:
    """A status that came as an event, as it would have come as an answer."""
    return json.dumps(content).encode()


def _error(answer: _Answer) -> ClusterError:
    """The error that an answer means."""
    try:
        said = json.loads(answer.body)
    except ValueError:
        said = None
    status: Object = said if isinstance(said, dict) and said.get("kind") == "Status" else {}
    details = status.get("details") or {}
    sentence = status.get("message") or f"The API server answered {answer.status}."
    faults = [
        FieldError(cause.get("field", ""), cause.get("reason", ""), cause.get("message", ""))
        for cause in details.get("causes") or []
    ]
    asked = details.get("retryAfterSeconds")
    pause = answer.retry_after if answer.retry_after is not None else (float(asked) if asked else None)
    return _class_of(answer.status, status)(sentence, status=answer.status, field_errors=faults, retry_after=pause)


def _class_of(code: int, status: Object) -> type[ClusterError]:
    if code == 404 and not status:
        return (
            errors.KindMissing
        )  # an object that is missing is answered with a Status, a path that is not served is not
    if code == 409 and status.get("reason") == "AlreadyExists":
        return errors.AlreadyExists
    return errors.ServerError if code >= 500 else _CLASSES.get(code, ClusterError)


_CLASSES: dict[int, type[ClusterError]] = {
    400: errors.InvalidObject,
    401: errors.Unauthorized,
    403: errors.AccessDenied,
    404: errors.ObjectNotFound,
    405: errors.InvalidObject,
    409: errors.WriteConflict,
    410: errors.ResourceVersionExpired,
    413: errors.InvalidObject,
    415: errors.InvalidObject,
    422: errors.InvalidObject,
    429: errors.TooManyRequests,
}


def _network_words(error: Exception) -> str:
    if isinstance(error, urllib3.exceptions.ConnectTimeoutError):
        return "No connection in time."
    if isinstance(error, urllib3.exceptions.ReadTimeoutError):
        return "Connected, but no answer in time."
    if isinstance(error, urllib3.exceptions.NewConnectionError):
        return "No connection: " + str(error).rpartition(": ")[2]
    return f"The connection broke: {_first_words(error)}"


def _first_words(error: object) -> str:
    """A library's sentence on one line and of bounded length."""
    return " ".join(str(error).split())[:_LONGEST_SENTENCE]
