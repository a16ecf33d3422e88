"""The errors of a cluster: one class for each way in which a caller can react.

Each error carries the API server's message (never a credential), and the HTTP status if there was one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldError:
    """One invalid field: its path (`spec.levels[0].nodeLabel`), the reason and the message of the API server."""

    field: str
    reason: str
    message: str


class ClusterError(Exception):
    """A call failed. `retry_after` is the pause in seconds, if the server named one."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        field_errors: Sequence[FieldError] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.field_errors = tuple(field_errors)
        self.retry_after = retry_after


class Unreachable(ClusterError):
    """No answer in time: it is unknown whether the call took effect."""


class SilentWatch(Unreachable):
    """A watch that the API server accepted brought nothing for too long: it has nothing to say, or is dead."""


class ServerError(Unreachable):
    """The API server answered 5xx: it is unknown whether the call took effect."""


class Unauthorized(ClusterError):
    """The credential is not valid, or has expired."""


class AccessDenied(ClusterError):
    """The credential is valid but has no right to this call."""


class ObjectNotFound(ClusterError):
    """The object does not exist."""


class KindMissing(ObjectNotFound):
    """The cluster does not serve this kind: its CustomResourceDefinition is missing, or has another version."""


class BeingDeleted(ClusterError):
    """The deletion of the object was requested, but its finalizers hold it: it can be neither used nor made anew."""


class AlreadyExists(ClusterError):
    """An object of that name exists."""


class WriteConflict(ClusterError):
    """A precondition failed (version or uid), or another manager owns a field (without force)."""


class ResourceVersionExpired(ClusterError):
    """The requested resource version is too old: list again."""


class TooManyRequests(ClusterError):
    """The API server asks for a pause."""


class InvalidObject(ClusterError):
    """The object breaks the kind's schema, or an admission webhook refused it; `details` say where."""


class ClusterObserved(ClusterError):
    """The cluster is observed: a connection that could write is not made."""


class BadCredentials(ClusterError):
    """The configured access cannot be used at all: unreadable, incomplete, or of a kind that is not allowed."""


def is_silence(error: ClusterError | None) -> bool:
    """Whether the cluster does not answer at all. A 5xx may be of one object, as one whose webhook does not answer."""
    return isinstance(error, Unreachable) and not isinstance(error, ServerError)
