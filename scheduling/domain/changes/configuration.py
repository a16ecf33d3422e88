"""The change of many objects of the configuration at once: what an import of other software's files has made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pools.domain.changes.command import ChangeCommand
from pools.domain.people.roles import Permission
from pools.domain.structured_input.declared_values import JSON, TEXT, value


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportConfiguration(ChangeCommand):
    """Create and change the objects of imported files, all of them or none.

    The audit trail has the actions of each object, with the origin as their reason.
    """

    service: ClassVar = "import_configuration"
    audit: ClassVar = ()
    permission: ClassVar = Permission.PLATFORM_WRITE
    needs_version: ClassVar = False

    origin: str = value(TEXT, "Origin", "The software and the files that the objects come from.")
    sections: Mapping[str, Mapping[str, Any]] = value(
        JSON, "Objects", "The objects by section and name, in the form of files of the configuration."
    )
    places: Mapping[str, str] = value(
        JSON, "Places", "The file and line that each object comes from, as pools.team: tux.cfg:12."
    )
