"""The errors of a cluster as a reason for conditions and as a message for users. Neither contains a credential."""

from __future__ import annotations

from scheduling.kube.connection import errors
from scheduling.kube.connection.errors import ClusterError

MAX_DETAIL_LENGTH = 600


def condition_reason(error: ClusterError) -> str:
    """The reason in one word, as in conditions of Kubernetes."""
    return next(reason for kind, reason, _ in _MESSAGES if isinstance(error, kind))


def error_message(error: ClusterError) -> str:
    """The problem and the remedy, with the server's message."""
    advice = next(advice for kind, _, advice in _MESSAGES if isinstance(error, kind))
    detail = error.message.strip()[:MAX_DETAIL_LENGTH]
    return f"{advice} ({detail})" if advice and detail else advice or detail


# The first match counts: subclasses come before their base classes.
_MESSAGES: tuple[tuple[type[ClusterError], str, str], ...] = (
    (
        errors.BeingDeleted,
        "Terminating",
        "What needs its quota waits until it is gone; the controller of its finalizer must release it.",
    ),
    (errors.ClusterObserved, "Observed", ""),
    (
        errors.BadCredentials,
        "BadCredentials",
        "The configured credential cannot be used; send the cluster a new one.",
    ),
    (
        errors.Unauthorized,
        "Unauthorized",
        "The cluster does not know the credential: it expired or was revoked. Send the cluster a new one.",
    ),
    (
        errors.AccessDenied,
        "Forbidden",
        "The cluster knows the credential but forbids this call; give its account the rights of the manifest.",
    ),
    (
        errors.KindMissing,
        "KindMissing",
        "The cluster does not serve a kind that is needed; install KAI with its CustomResourceDefinitions.",
    ),
    (errors.ObjectNotFound, "NotFound", ""),
    (errors.ServerError, "ServerFault", "The API server answered with an internal error; the call will be repeated."),
    (errors.Unreachable, "Unreachable", "The cluster does not answer; the call will be repeated."),
    (errors.TooManyRequests, "TooManyRequests", "The API server asks for a pause; the call will be repeated after it."),
    (errors.InvalidObject, "Invalid", "The cluster refused the object."),
    (errors.WriteConflict, "Conflict", "Another client changed the object meanwhile; the call will be repeated."),
    (errors.AlreadyExists, "AlreadyExists", "Another client created the object meanwhile; the call will be repeated."),
    (
        errors.ResourceVersionExpired,
        "Gone",
        "The cluster changes faster than its objects can be listed; the call will be repeated.",
    ),
    (ClusterError, "ClusterError", ""),
)
