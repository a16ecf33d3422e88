"""The official client behind the port: the only module that imports it.

Only its connection is used (addresses, TLS, credentials and their renewal). Paths, bodies and answers are handled here,
so that every kind is treated alike and no call is made that the caller did not ask for. Calls are not repeated here:
only the caller knows whether a repetition is right.
"""

from __future__ import annotations

import json
import re
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from math import isnan
from types import MappingProxyType
from typing import Any, ClassVar

import urllib3
from kubernetes import client as official
from kubernetes import config as official_config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException

from scheduling.domain.kubernetes_json import Object
from scheduling.kube.connection import errors
from scheduling.kube.connection.call_limits import MAX_PAUSE_SECONDS, CallLimiter, call_class
from scheduling.kube.connection.call_tracing import traced_call
from scheduling.kube.connection.cluster_access import ClusterAccess, InClusterAccess, KubeconfigAccess
from scheduling.kube.connection.errors import ClusterError, FieldError
from scheduling.kube.connection.guarded_connections import guard_connections
from scheduling.kube.connection.port import (
    CALL_TIMEOUT_SECONDS,
    CONNECT_TIMEOUT_SECONDS,
    PAGE_SIZE,
    ObjectList,
    ResourceKind,
    WatchEvent,
    WatchEventType,
)
from scheduling.kube.connection.resource_kinds import POD
from scheduling.kube.connection.tls_connections import close_failed_connections

JSON_TYPE = "application/json"
APPLY_PATCH_TYPE = "application/apply-patch+yaml"
MERGE_PATCH_TYPE = "application/merge-patch+json"
_CHUNK = 65_536
_MAX_LISTS = 3
_MAX_TEXT_LENGTH = 500
_ERROR_NUMBER = re.compile(r"\[Errno -?\d+\] ")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds to wait for a connection, for a whole answer, and for the next event of a watch.

    An API server sends a bookmark about once a minute, so a watch that is silent for longer may be broken.
    """

    connect: float = CONNECT_TIMEOUT_SECONDS
    call: float = CALL_TIMEOUT_SECONDS
    watch_silence: float = 75.0


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: bytes
    retry_after: float | None


class KubernetesReader:
    """:class:`scheduling.kube.connection.port.ClusterReader` over HTTPS. `access` holds address and credential. It has
    no call that writes, and sends no request but GET."""

    _methods: ClassVar = frozenset({"GET"})

    def __init__(
        self, access: ClusterAccess, *, timeouts: Timeouts = Timeouts(), limiter: CallLimiter | None = None
    ) -> None:
        self._timeouts = timeouts
        self._limiter = limiter or CallLimiter()
        settings = official.Configuration()
        settings.retries = False
        settings.connection_pool_maxsize = 16  # an observer has eight watches, and calls beside them
        try:
            if isinstance(access, InClusterAccess):
                official_config.load_incluster_config(client_configuration=settings)
            else:
                official_config.load_kube_config_from_dict(
                    access.content, context=access.context or None, client_configuration=settings, persist_config=False
                )
        except (ConfigException, ValueError, TypeError, LookupError, AttributeError, OSError) as error:
            raise errors.BadCredentials(_short_text(error)) from error
        self._api = official.ApiClient(settings)
        self._api.user_agent = f"osmo-admin/{version('osmo-admin')}"
        manager = self._api.rest_client.pool_manager
        # An API server redirects nobody; a redirect would take the request to an address that no kubeconfig names.
        # The reference is weak: in a cycle, open connections would stay until the garbage collector finds them.
        manager.urlopen = partial(type(manager).urlopen, weakref.proxy(manager), redirect=False)
        close_failed_connections(manager)
        if isinstance(access, KubeconfigAccess) and access.addresses is not None:
            guard_connections(manager, access.addresses)

    def version(self) -> str:
        """See the port."""
        return str(self._json("get", None, "GET", "/version")["gitVersion"])

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
        query = _selector_query(labels, fields) | {"limit": str(page_size)}
        for attempt in range(_MAX_LISTS):
            try:
                return self._list(kind, namespace, query, transform)
            except errors.ResourceVersionExpired:
                if attempt == _MAX_LISTS - 1:
                    raise
        raise AssertionError("the loop above returns or raises")

    def _list(
        self, kind: ResourceKind, namespace: str | None, query: Mapping[str, str], keep: Callable[[Object], Any] | None
    ) -> ObjectList:
        items: list[Any] = []
        more: dict[str, str] = {}
        while True:
            body = self._json("list", kind, "GET", _path(kind, namespace), {**query, **more})
            for item in body.get("items") or []:
                found = _with_kind(kind, item)
                items.append(found if keep is None else keep(found))
            metadata = body.get("metadata")
            if not isinstance(metadata, dict) or "resourceVersion" not in metadata:
                raise errors.ServerError("The answer was not a list; is this a Kubernetes API server?")
            if not metadata.get("continue"):
                return ObjectList(items, metadata["resourceVersion"])
            if metadata["continue"] == more.get("continue"):
                raise errors.ServerError("The answer names its own page as the next one, so the list has no end.")
            more = {"continue": metadata["continue"]}

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
        query = _selector_query(labels, fields) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(max(1, round(timeout_seconds))),
        }
        silence = min(self._timeouts.watch_silence, timeout_seconds + self._timeouts.call)
        with (
            self._limited("watch", kind),
            self._open("GET", _path(kind, namespace), query, read_seconds=silence) as response,
        ):
            if response.status != 200:
                raise _error(_read_answer(response, time.monotonic() + self._timeouts.call))
            try:
                for line in _lines(response):
                    yield _event(kind, line)
            except urllib3.exceptions.ReadTimeoutError as error:
                raise errors.SilentWatch(_network_message(error)) from error

    def get(self, kind: ResourceKind, name: str, *, namespace: str | None = None) -> Object:
        """See the port."""
        return _with_kind(kind, self._json("get", kind, "GET", _path(kind, namespace, name)))

    def read_log(
        self, pod: str, *, namespace: str, container: str, tail_lines: int, limit_bytes: int
    ) -> Iterator[bytes]:
        """See the port."""
        query = {"container": container, "tailLines": str(tail_lines), "limitBytes": str(limit_bytes)}
        deadline = time.monotonic() + self._timeouts.call
        with (
            self._limited("log", POD),
            self._open("GET", f"{_path(POD, namespace, pod)}/log", query, read_seconds=self._timeouts.call) as response,
        ):
            if not 200 <= response.status < 300:
                raise _error(_read_answer(response, deadline))
            yield from _chunks(response, deadline)

    def close(self) -> None:
        """See the port."""
        self._api.rest_client.pool_manager.clear()
        self._api.close()

    @contextmanager
    def _limited(self, verb: str, kind: ResourceKind | None) -> Iterator[None]:
        """Wait for the turn of a call, and count its answer."""
        of = call_class(verb, kind)
        self._limiter.wait(of)
        try:
            yield
        except errors.TooManyRequests as error:
            self._limiter.count(verb, kind, "429")
            self._limiter.pause(of, error.retry_after)
            raise
        except ClusterError as error:
            self._limiter.count(verb, kind, str(error.status or type(error).__name__))
            raise
        else:
            self._limiter.count(verb, kind, "2xx")

    def _json(
        self,
        verb: str,
        kind: ResourceKind | None,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        content_type: str = JSON_TYPE,
    ) -> Object:
        """One call with a JSON answer, within the limits. Raises the error that the answer means."""
        traced = traced_call(verb, kind.plural if kind else "", method, path)
        with traced as trace_headers, self._limited(verb, kind):
            return self._call(method, path, query, body, content_type, trace_headers)

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Object | None,
        content_type: str,
        trace_headers: Mapping[str, str],
    ) -> Object:
        deadline = time.monotonic() + self._timeouts.call
        with self._open(
            method, path, query or {}, body, content_type, read_seconds=self._timeouts.call, more_headers=trace_headers
        ) as response:
            answer = _read_answer(response, deadline)
        if not 200 <= answer.status < 300:
            raise _error(answer)
        try:
            found = json.loads(answer.body)
        except ValueError as error:
            raise errors.ServerError("The answer was not valid JSON; is this a Kubernetes API server?") from error
        if not isinstance(found, dict):
            raise errors.ServerError("The answer was not a JSON object; is this a Kubernetes API server?")
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
        more_headers: Mapping[str, str] = MappingProxyType({}),
    ) -> Iterator[Any]:
        """Send a request and yield the unread response. A network error is Unreachable."""
        assert method in self._methods, f"{type(self).__name__} sends no {method}"
        headers = {"Accept": f"{JSON_TYPE}, */*", **more_headers}
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            request = self._api.param_serialize(
                method,
                path,
                query_params=list(query.items()),
                header_params=headers,
                body=body,
                auth_settings=["BearerToken"],
            )
        except (ConfigException, OSError) as error:  # the renewal of the credential failed
            raise errors.BadCredentials(_short_text(error)) from error
        response = None
        try:
            response = self._api.call_api(*request, _request_timeout=(self._timeouts.connect, read_seconds)).response
            yield response
        except ApiException as error:  # raised by the client itself: TLS
            raise errors.Unreachable(f"TLS failed: {_short_text(error.reason)}") from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise errors.Unreachable(_network_message(error)) from error
        finally:
            if response is not None:
                # A response that was read to its end has returned its connection; any other is closed with it.
                response.close()


class KubernetesCluster(KubernetesReader):
    """:class:`scheduling.kube.connection.port.Cluster` over HTTPS: a reader that writes, too."""

    _methods = frozenset({"GET", "POST", "PATCH", "DELETE"})

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
        query = {"fieldManager": field_manager, "force": "true" if force else "false"} | _dry_run_query(dry_run)
        return _with_kind(
            kind, self._json("apply", kind, "PATCH", path, query, _with_kind(kind, body), APPLY_PATCH_TYPE)
        )

    def create(self, kind: ResourceKind, body: Object, *, field_manager: str, dry_run: bool = False) -> Object:
        """See the port."""
        path = _path(kind, body["metadata"].get("namespace"))
        return _with_kind(
            kind,
            self._json(
                "create",
                kind,
                "POST",
                path,
                {"fieldManager": field_manager} | _dry_run_query(dry_run),
                _with_kind(kind, body),
            ),
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
        return _with_kind(
            kind,
            self._json("patch", kind, "PATCH", path, {"fieldManager": field_manager}, dict(patch), MERGE_PATCH_TYPE),
        )

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
        self._json("delete", kind, "DELETE", _path(kind, namespace, name), {}, options)


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


def _with_kind(kind: ResourceKind, item: Object) -> Object:
    """The object with its API version and kind, which lists of built-in kinds omit."""
    return {"apiVersion": kind.api_version, "kind": kind.name} | item


def _selector_query(labels: str, fields: str) -> dict[str, str]:
    return {key: text for key, text in (("labelSelector", labels), ("fieldSelector", fields)) if text}


def _dry_run_query(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}


def _read_answer(response: Any, deadline: float) -> _Answer:
    """The whole body; the deadline also ends a slow stream."""
    body = b"".join(_chunks(response, deadline))
    return _Answer(response.status, body, _seconds(response.headers.get("Retry-After")))


def _chunks(response: Any, deadline: float) -> Iterator[bytes]:
    while chunk := response.read1(_CHUNK, decode_content=True):
        yield chunk
        if time.monotonic() > deadline:
            raise errors.Unreachable("The API server's answer did not end in time.")


def _seconds(text: str | None) -> float | None:
    return float(text) if text and text.isascii() and text.isdigit() else None


def _lines(response: Any) -> Iterator[bytes]:
    rest = b""
    while chunk := response.read1(_CHUNK, decode_content=True):  # what is there, also where a proxy sends no chunks
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line for line in lines if line.strip())


def _event(kind: ResourceKind, line: bytes) -> WatchEvent:
    try:
        event = json.loads(line)
        event_type, content = event["type"], event["object"]
        if event_type != "ERROR":
            version = content["metadata"]["resourceVersion"]
            return WatchEvent(WatchEventType(event_type), _with_kind(kind, content), version)
        status = int(content.get("code") or 500)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.Unreachable("The watch broke off in the middle of an event.") from error
    raise _error(_Answer(status, _encode(content), None))


def _encode(content: Object) -> bytes:
    """A Status from an event, encoded like the body of an answer."""
    return json.dumps(content).encode()


def _error(answer: _Answer) -> ClusterError:
    """The error that an answer means."""
    try:
        content = json.loads(answer.body)
    except ValueError:
        content = None
    status: Object = content if isinstance(content, dict) and content.get("kind") == "Status" else {}
    message = str(status.get("message") or f"The API server answered {answer.status}.")
    faults, requested = _read_details(status)
    pause = requested if answer.retry_after is None else answer.retry_after
    if pause is not None and isnan(pause):
        pause = None
    if pause is not None:  # a gateway that asks for a day must not keep us away for longer than its fault lasts
        pause = min(pause, MAX_PAUSE_SECONDS)
    return _class_of(answer.status, status)(message, status=answer.status, field_errors=faults, retry_after=pause)


def _read_details(status: Object) -> tuple[Sequence[FieldError], float | None]:
    """The invalid fields and the pause in seconds that a Status names; what has another form counts as not named."""
    try:
        details = status.get("details") or {}
        faults = [
            FieldError(cause.get("field", ""), cause.get("reason", ""), cause.get("message", ""))
            for cause in details.get("causes") or []
        ]
        requested = details.get("retryAfterSeconds")
        return faults, float(requested) if requested else None
    except (ValueError, TypeError, AttributeError):
        return [], None


def _class_of(code: int, status: Object) -> type[ClusterError]:
    if code == 404 and not status:
        return (
            errors.KindMissing
        )  # an object that is missing is answered with a Status, a path that is not served is not
    if code == 409 and status.get("reason") == "AlreadyExists":
        return errors.AlreadyExists
    if code >= 500:
        return errors.ServerError
    found = _CLASSES.get(code, ClusterError)
    # Without a Status a gateway has refused the call: the API server has not judged the object.
    return ClusterError if found is errors.InvalidObject and not status else found


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


def _network_message(error: Exception) -> str:
    if isinstance(error, urllib3.exceptions.NewConnectionError):  # it counts as a ConnectTimeoutError too
        return "No connection: " + _short_text(str(error).rpartition(": ")[2])
    if isinstance(error, urllib3.exceptions.ConnectTimeoutError):
        return "No connection in time."
    if isinstance(error, urllib3.exceptions.ReadTimeoutError):
        return "Connected, but no answer in time."
    return f"The connection broke: {_short_text(error)}"


def _short_text(error: object) -> str:
    """A message of a library on one line, of bounded length, without the numbers of the operating system."""
    return _ERROR_NUMBER.sub("", " ".join(str(error).split()))[:_MAX_TEXT_LENGTH]
