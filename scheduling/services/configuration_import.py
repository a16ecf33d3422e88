"""Apply the objects of an import from its page: as files of Git, but nobody has reviewed them, and they belong to the
admins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pools.domain.configuration.ownership import OwnerKind
from pools.domain.people.roles import Actor
from scheduling.configuration.bodies import SECTION_BY_KEY, SETTINGS_NAME
from scheduling.configuration.files import ConfigurationFiles, FileObject
from scheduling.domain.changes.configuration import ImportConfiguration
from scheduling.services.configuration import (
    AppliedConfiguration,
    ApplyOptions,
    apply_configuration,
    configuration_effect,
    read_changing_objects,
)

SOURCE = "page Import"


def import_configuration(command: ImportConfiguration, *, actor: Actor, description: str = "") -> AppliedConfiguration:
    """Create and change the objects, all or nothing. Raises as :func:`apply_configuration`; faults have the file and
    line of the source. What needs the approval of a second person is refused."""
    return apply_configuration(actor=actor, files=_files_of(command), options=_options_of(command, description))


def effect_of_import(command: ImportConfiguration, operation: Callable[[], object], *, actor: Actor) -> dict[str, Any]:
    """The effect of :func:`import_configuration`, which `operation` calls, with the differences."""
    return configuration_effect(
        actor=actor, files=_files_of(command), options=_options_of(command), operation=operation
    )


def objects_of_import(command: ImportConfiguration) -> dict[str, Any]:
    """The present forms of the objects that the import would change."""
    return read_changing_objects(_files_of(command), _options_of(command))


def _options_of(command: ImportConfiguration, description: str = "") -> ApplyOptions:
    reason = f"{description} ({command.origin})" if description else command.origin
    return ApplyOptions(SOURCE, owner=OwnerKind.ADMIN, is_reviewed=False, reason=reason)


def _files_of(command: ImportConfiguration) -> ConfigurationFiles:
    """The objects as files of the configuration give them, each at its place in the source."""
    found = ConfigurationFiles()
    for key, objects in command.sections.items():
        section = SECTION_BY_KEY[key]
        for name, body in ({SETTINGS_NAME: objects} if section.is_single else objects).items():
            prefix = key if section.is_single else f"{key}.{name}"
            file, _, line = command.places[prefix].rpartition(":")
            form, faults = section.read(name, body)
            place = FileObject(section.kind, name, form, file, prefix, {prefix: int(line)})
            found.objects[section.kind, name] = place
            found.faults += [place.locate(fault) for fault in faults]
    return found
