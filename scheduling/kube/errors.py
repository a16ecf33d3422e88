"""What a cluster may answer instead of what was asked. One class for each thing that a caller can do about it.

Each carries the API server's own sentence (never a credential), and the HTTP status where there was one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing that the API server found wrong: where (`spec.levels[0].nodeLabel`), which reason, which sentence."""

    field: str
    reason: str
    message: str


class ClusterError(Exception):
    """A cluster said no, or nothing. `retry_after` is seconds, where the server named them."""

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
    """No answer, or none in time: it is not known whether the call was carried out."""


class ServerError(Unreachable):
    """The API server answered with a fault of its own (5xx); nor is it known here whether the call was carried out."""


class Unauthorized(ClusterError):
    """The credential is not valid, or not any more."""


class AccessDenied(ClusterError):
    """The credential is valid and may not do this."""


class ObjectNotFound(ClusterError):
    """There is no such object."""


class KindMissing(ObjectNotFound):
    """The cluster does not serve this kind: its CustomResourceDefinition is not installed, or not in this version."""


class AlreadyExists(ClusterError):
    """An object of that name is there."""


class WriteConflict(ClusterError):
    """The object is not what the caller thought: a version, a uid, or (without force) somebody else's field."""


class ResourceVersionExpired(ClusterError):
    """The place in history that was asked for is forgotten: list again."""


class TooManyRequests(ClusterError):
    """The API server asks for a pause."""


class InvalidObject(ClusterError):
    """The object breaks the kind's schema, or an admission webhook refused it; `details` say where."""


class BadCredentials(ClusterError):
    """The access that was configured cannot even be tried: unreadable, incomplete, or of a kind that is not allowed."""
