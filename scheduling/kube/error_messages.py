"""What a cluster's no means, in one word for programs and one sentence for people. Never with a credential in it."""

from __future__ import annotations

from scheduling.kube import errors
from scheduling.kube.errors import ClusterError

MAX_DETAIL_LENGTH = 600


def condition_reason(error: ClusterError) -> str:
    """One word, as conditions have them."""
    return next(reason for kind, reason, _ in _WORDS if isinstance(error, kind))


def error_message(error: ClusterError) -> str:
    """What is wrong and what to do, with the server's own words."""
    advice = next(advice for kind, _, advice in _WORDS if isinstance(error, kind))
    said = error.message.strip()[:MAX_DETAIL_LENGTH]
    return f"{advice} ({said})" if advice and said else advice or said


# The first that fits: subclasses stand before what they belong to.
_WORDS: tuple[tuple[type[ClusterError], str, str], ...] = (
    (errors.BadCredentials, "BadCredentials", "The configured credential cannot be used; send the backend a new one."),
    (
        errors.Unauthorized,
        "Unauthorized",
        "The cluster does not know the credential: it expired or was revoked. Send the backend a new one.",
    ),
    (
        errors.AccessDenied,
        "Forbidden",
        "The cluster knows the credential and does not let it do this; give its account the rights of the manifest.",
    ),
    (
        errors.KindMissing,
        "KindMissing",
        "The cluster does not serve a kind that is needed; install KAI with its CustomResourceDefinitions.",
    ),
    (errors.ObjectNotFound, "NotFound", ""),
    (errors.ServerError, "ServerFault", "The API server answered with a fault of its own; it is asked again."),
    (errors.Unreachable, "Unreachable", "The cluster does not answer; it is asked again."),
    (errors.TooManyRequests, "TooManyRequests", "The API server asks for a pause; it is asked again after it."),
    (errors.InvalidObject, "Invalid", "The cluster refused the object."),
    (errors.WriteConflict, "Conflict", "Somebody else changed the object at the same moment; it is tried again."),
    (errors.AlreadyExists, "AlreadyExists", "Somebody else made the object at the same moment; it is tried again."),
    (
        errors.ResourceVersionExpired,
        "Gone",
        "The cluster changes faster than its objects can be listed; it is tried again.",
    ),
    (ClusterError, "ClusterError", ""),
)
