"""The object of an observed cluster behind a workflow, and what cannot be done to such a workflow."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

OWNER_PREFIX: Final = "observed:"
"""Before the name of a cluster: the account that owns its observed work. Nobody can sign in as it, and no person can
have its name, because of the colon."""


class ObservedAction(StrEnum):
    """What people ask of a workflow and an observed one cannot do."""

    CANCEL = "cancel"
    SUBMIT_AGAIN = "submit_again"


@dataclass(frozen=True, slots=True)
class ObservedObject:
    """The object of an observed cluster that a workflow stands for. Its record follows it while it `is_open`."""

    backend: str
    kind: str
    namespace: str
    name: str
    queue: str
    is_open: bool

    @property
    def title(self) -> str:
        """Such as `pod science/job of cluster lab`."""
        return f"{self.kind} {self.namespace}/{self.name} of cluster {self.backend}"


def observed_obstacle(workflow: str, seen: ObservedObject | None, action: ObservedAction) -> str:
    """Why this cannot be done to a workflow, empty if it can. Work that was observed has no workflow file, also when
    its record has ended."""
    if seen is None:
        return ""
    if action is ObservedAction.SUBMIT_AGAIN:
        return (
            f"{workflow} is the {seen.title}, which was only observed, so it has no workflow file. Start it again "
            "with the tools of that cluster, or submit a file of your own."
        )
    if not seen.is_open:
        return ""
    return (
        f"{workflow} is the {seen.title}, which is observed; OSMO Admin writes nothing there. Stop it with the tools "
        "of that cluster."
    )
