"""The next step for a platform admin whose cluster is not in sync, with the commands for it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from scheduling.domain.cluster.election import lease_name

OBSERVED: Final = "Observed"
"""The reason of a cluster that is only read."""


class SyncAction(StrEnum):
    """A button of the page of a cluster's queues."""

    SYNC = "sync"
    TEST = "test"
    EDIT = "edit"
    REVERT = "reapply"


@dataclass(frozen=True, slots=True)
class SyncFacts:
    """A cluster and the condition of its queues; `reason` is `NeverTried` before the first check. `open_drift` counts
    fields that others changed and that still differ."""

    backend: str
    namespace: str
    reason: str
    is_configured: bool = True
    open_drift: int = 0


@dataclass(frozen=True, slots=True)
class SyncAdvice:
    """One next step: a sentence, the button for it, if the page has it, and commands of a shell, each one line."""

    message: str
    action: SyncAction | None = None
    commands: tuple[str, ...] = ()


def advise_sync(facts: SyncFacts) -> SyncAdvice | None:
    """The next step; None while nothing is to do."""
    if not facts.is_configured:
        return SyncAdvice("Give the cluster a kubeconfig: without one nothing is written there.", SyncAction.EDIT)
    advise = _ADVICE.get(facts.reason)
    return advise(facts) if advise is not None else None


def rights_commands(backend: str, namespace: str) -> tuple[str, ...]:
    """The commands that give OSMO Admin its account in the cluster, and that make a token of it."""
    return (*_manifest_commands(backend), _token_command(namespace))


def observer_commands(namespace: str) -> tuple[str, ...]:
    """The same for a cluster that is only read."""
    token = f"kubectl -n {shlex.quote(namespace)} create token osmo-admin-observer --duration=8760h"
    return ("kubectl apply -f deploy/observer.yaml", token)


def _manifest_commands(backend: str) -> tuple[str, ...]:
    return (
        f"osmo-admin webhook manifest {shlex.quote(backend)} --url https://ADDRESS:8443 > osmo-cluster.yaml",
        "kubectl apply -f osmo-cluster.yaml",
    )


def _token_command(namespace: str) -> str:
    return f"kubectl -n {shlex.quote(namespace)} create token osmo-admin --duration=8760h"


def _unchecked(facts: SyncFacts) -> SyncAdvice:
    return SyncAdvice(
        "The first check begins by itself within half a minute. A connection test says at once what is missing.",
        SyncAction.TEST,
    )


def _off(facts: SyncFacts) -> SyncAdvice:
    return SyncAdvice(
        "A change of a quota does not reach this cluster. Choose another mode under “Queues” to change that.",
        SyncAction.EDIT,
    )


def _observed(facts: SyncFacts) -> SyncAdvice:
    return SyncAdvice(
        "A change of a quota does not reach this cluster. When the differences are as you want them, edit the cluster "
        "and choose the mode manage; the command shows the writes that would be made then.",
        SyncAction.EDIT,
        (f"osmo-admin sync --backend {shlex.quote(facts.backend)} --dry-run",),
    )


def _unreachable(facts: SyncFacts) -> SyncAdvice:
    return SyncAdvice(
        "The call is repeated by itself. If the API server is up, check its address in the kubeconfig and the network "
        "between; “Test the connection” tries again at once.",
        SyncAction.TEST,
        ("kubectl --kubeconfig osmo.kubeconfig version",),
    )


def _new_credential(facts: SyncFacts) -> SyncAdvice:
    return SyncAdvice(
        "Give the cluster a kubeconfig with a new token; it is used at once. The command makes a token.",
        SyncAction.EDIT,
        (_token_command(facts.namespace),),
    )


def _forbidden(facts: SyncFacts) -> SyncAdvice:
    return SyncAdvice(
        "Let an admin of the cluster apply the manifest with the rights of OSMO Admin; the next check uses them.",
        SyncAction.TEST,
        _manifest_commands(facts.backend),
    )


def _kind_missing(facts: SyncFacts) -> SyncAdvice:
    return SyncAdvice(
        "Install KAI 0.13 or newer in the cluster. The command names the definitions that are missing.",
        SyncAction.TEST,
        ("kubectl get crd queues.scheduling.run.ai podgroups.scheduling.run.ai topologies.kai.scheduler",),
    )


def _held_elsewhere(facts: SyncFacts) -> SyncAdvice:
    lease = lease_name(facts.namespace)
    return SyncAdvice(
        "Stop one of the two installations, or give one of them another namespace. The command shows the holder.",
        None,
        (f"kubectl -n {shlex.quote(facts.namespace)} get lease {shlex.quote(lease)} -o yaml",),
    )


def _in_the_way(facts: SyncFacts) -> SyncAdvice:
    sync = f"osmo-admin sync --backend {shlex.quote(facts.backend)} --take-over"
    return SyncAdvice(
        "If the queues are of an earlier database of this installation, take them over: the first command shows the "
        "writes, the second makes them. Otherwise their owner has to rename or remove them.",
        None,
        (f"{sync} --dry-run", sync),
    )


def _writes_due(facts: SyncFacts) -> SyncAdvice:
    preview = (f"osmo-admin sync --backend {shlex.quote(facts.backend)} --dry-run",)
    if facts.open_drift:
        return SyncAdvice(
            "Decide each field below: Revert writes the desired value, Adopt makes the found value the desired one.",
            None,
            preview,
        )
    return SyncAdvice(
        "The cluster only reports: the command shows the writes. To make them, choose “write the queues” under "
        "“Queues”.",
        SyncAction.EDIT,
        preview,
    )


def _terminating(facts: SyncFacts) -> SyncAdvice:
    return SyncAdvice(
        "The controller of its finalizer has to release the object; the next check continues by itself.",
        SyncAction.SYNC,
        (f"kubectl get queues.scheduling.run.ai -l osmo.namespace={shlex.quote(facts.namespace)}",),
    )


def _refused(facts: SyncFacts) -> SyncAdvice:
    return SyncAdvice(
        "The cluster refused a write; other pools continue. The command shows the writes that are left.",
        SyncAction.SYNC,
        (f"osmo-admin sync --backend {shlex.quote(facts.backend)} --dry-run",),
    )


def _again(facts: SyncFacts) -> SyncAdvice:
    return SyncAdvice("The next check continues by itself; “Sync now” begins it at once.", SyncAction.SYNC)


_ADVICE: Final[Mapping[str, Callable[[SyncFacts], SyncAdvice]]] = {
    "NeverTried": _unchecked,
    "Off": _off,
    OBSERVED: _observed,
    "Unreachable": _unreachable,
    "ServerFault": _unreachable,
    "TooManyRequests": _again,
    "Unauthorized": _new_credential,
    "BadCredentials": _new_credential,
    "Forbidden": _forbidden,
    "KindMissing": _kind_missing,
    "HeldElsewhere": _held_elsewhere,
    "InTheWay": _in_the_way,
    "WritesDue": _writes_due,
    "Terminating": _terminating,
    "Invalid": _refused,
    "Conflict": _refused,
    "AlreadyExists": _again,
    "NotFound": _again,
    "Gone": _again,
    "ClusterError": _refused,
    "Interrupted": _again,
}
"""By the reason of the condition; `InStep` needs nothing."""
