"""OSMO 6: Helm values (`services.configs`), the mounted configuration, and `osmo config show` → the same objects here.

Files of our own form are read too, so an export of an installation can be imported again without a change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pools.domain.configuration.ownership import OwnedKind
from pools.domain.configuration.platforms import ANSWER_KEYS as PLATFORM_ANSWER_KEYS
from pools.domain.configuration.platforms import KEYS as PLATFORM_KEYS
from pools.domain.configuration.platforms import PARSED_PREFIX
from pools.domain.configuration.platforms import UNUSED_KEYS as PLATFORM_UNUSED_KEYS
from pools.domain.configuration.pool_config import ANSWER_KEYS, UNUSED_KEYS
from pools.domain.configuration.pool_fields import EDITABLE_KEYS
from pools.domain.names import LABEL_LIMIT
from scheduling.configuration.bodies import (
    SECTION_BY_KEY,
    SETTINGS_DEFAULTS,
    SETTINGS_NAME,
    SUBPOOLS,
    SUBPOOLS_OWNER,
    USERS,
)
from scheduling.configuration.files import ConfigurationFiles
from scheduling.configuration.osmo_file import FOREIGN_KEYS, backend_form
from scheduling.moving_in.names import NameRegister, longest_pool_name
from scheduling.moving_in.options import ImportOptions
from scheduling.moving_in.osmo_roles import POLICIES, OsmoRoles
from scheduling.moving_in.result import BadSource, ImportResult, SourcePlace
from scheduling.moving_in.source_text import SourceText, read_values

BACKEND_STATE: Final = ("k8s_uid", "version", "last_heartbeat", "created_date", "online", "status", "name", "pools")
_UNUSED: Final = "the value is kept for OSMO, and has no effect here."
_CAPITAL: Final = re.compile(r"(?<=[a-z])([A-Z])")


def read_osmo(sources: list[SourceText], result: ImportResult, options: ImportOptions) -> None:
    """Read the configuration of an OSMO installation. Raises BadSource."""
    reader = _OsmoReader(result, options)
    for file, value, lines in read_values(sources, result):
        reader.read(file, value, lines)
    reader.finish()
    if not result.objects:
        result.decide(
            SourcePlace("options", 1),
            "the files have no pool, backend or role. Add the answers of osmo config show -o json, or the Helm values.",
        )


class _OsmoReader:
    """The import of one set of files."""

    def __init__(self, result: ImportResult, options: ImportOptions) -> None:
        self.result, self.options = result, options
        self.pools = NameRegister("pool", longest_pool_name(options.namespace), result)
        self.backends = NameRegister("cluster", LABEL_LIMIT, result)
        self.names: dict[tuple[str, str], str] = {}
        self.roles = OsmoRoles(result)

    def finish(self) -> None:
        """The roles, which name the pools of all files."""
        self.roles.write({foreign: name for (section, foreign), name in self.names.items() if section == "pools"})

    def read(self, file: str, value: Any, lines: Mapping[str, int]) -> None:
        """One document."""

        def place(path: str) -> SourcePlace:
            return SourcePlace(file, lines.get(path, 1), path)

        if isinstance(value, list) and all(isinstance(each, dict) and "id" in each for each in value):
            _require_key(value, ("roles",), "the answers of GET /api/auth/user/NAME", place)
            for at, account in enumerate(value):
                self.roles.read_account(account, f"[{at}].", lambda path: place(path.removesuffix(".")))
            return
        if isinstance(value, dict) and "id" in value and "roles" in value:  # an account, GET /api/auth/user/NAME
            self.roles.read_account(value, "", place)
            return
        if isinstance(value, list):  # osmo config show ROLE
            _require_key(value, (POLICIES, USERS), "the roles of osmo config show ROLE", place)
            value, prefix = {"roles": value}, ""
        elif not isinstance(value, dict):
            raise BadSource.at(place(""), "this must be a map of sections, such as pools and backends.")
        else:
            value, prefix = self._inside_of_values(value, place)
        names = {_CAPITAL.sub(r"_\1", key).lower() for key in value}
        if not prefix and names & set(SETTINGS_DEFAULTS) and not names & {*SECTION_BY_KEY, *FOREIGN_KEYS}:
            self._read_settings(value, "", place)  # osmo config show WORKFLOW
            return
        for key, section in value.items():
            name, path = _CAPITAL.sub(r"_\1", key).lower(), f"{prefix}{key}"
            if not section:
                self.result.state(place(path), "the section is empty.")
            elif name in FOREIGN_KEYS:
                self.result.lost(place(path), "OSMO Admin has no such configuration.")
            elif name not in SECTION_BY_KEY:
                self.result.lost(place(path), "this section is not known to the import.")
            else:
                self._read_section(name, self._as_map(section, place(path)), path, place)

    def _inside_of_values(
        self, value: Mapping[str, Any], place: Callable[[str], SourcePlace]
    ) -> tuple[Mapping[str, Any], str]:
        """The configuration in the values of OSMO's chart, or the document itself."""
        services = value.get("services")
        configs = services.get("configs") if isinstance(services, dict) else None
        if not isinstance(configs, dict):
            return value, ""
        for key in value:
            if key != "services":
                self.result.state(place(key), "a value of the chart, not configuration of quotas.")
        for key in services or {}:
            if key != "configs":
                self.result.state(place(f"services.{key}"), "a value of the chart, not configuration of quotas.")
        for key in ("enabled", "secretRefs"):
            if key in configs:
                self.result.state(place(f"services.configs.{key}"), "how the chart mounts the configuration.")
        return {
            key: inner for key, inner in configs.items() if key not in ("enabled", "secretRefs")
        }, "services.configs."

    def _as_map(self, section: Any, place: SourcePlace) -> Mapping[str, Any]:
        """Objects by name; `osmo config show` gives a list of objects with names."""
        if isinstance(section, list):
            if not all(isinstance(each, dict) and isinstance(each.get("name"), str) for each in section):
                raise BadSource.at(place, "each object of the list must be a map with a name.")
            return {each["name"]: {key: inner for key, inner in each.items() if key != "name"} for each in section}
        if not isinstance(section, dict):
            raise BadSource.at(place, "this must be a map from names to objects.")
        return section

    def _read_section(
        self, name: str, section: Mapping[str, Any], path: str, place: Callable[[str], SourcePlace]
    ) -> None:
        if name == SETTINGS_NAME:
            self._read_settings(section, path, place)
            return
        for each, body in section.items():
            where = place(f"{path}.{each}")
            if not isinstance(body, dict):
                raise BadSource.at(where, "this must be a map.")
            if name == "pools":
                self._read_pool(each, body, where)
            elif name == "backends":
                self._read_backend(each, body, where)
            elif name == "roles" and (POLICIES in body or USERS not in body):
                self.roles.read_role(each, body, f"{path}.{each}", place)
            else:
                self._keep(SECTION_BY_KEY[name].kind, each, body, where)

    def _keep(self, kind: OwnedKind, name: str, body: Mapping[str, Any], place: SourcePlace) -> None:
        if (kind, name) in self.result.objects:
            first = self.result.origins[kind, name]
            raise BadSource.at(place, f"this object is given twice, here and in {first}. Keep one.")
        self.result.add(kind, name, body, place)
        self.result.became(place, f"{kind} {name}.")

    def _read_pool(self, foreign: str, body: Mapping[str, Any], place: SourcePlace) -> None:
        name = self.names.get(("pools", foreign)) or self.pools.claim(foreign, place)
        self.names["pools", foreign] = name
        ours = dict(self._known(body, place, (*EDITABLE_KEYS, SUBPOOLS, SUBPOOLS_OWNER), ANSWER_KEYS))
        for key in UNUSED_KEYS:
            if ours.get(key):
                self.result.lost(_below(place, key), _UNUSED)
        if isinstance(ours.get("backend"), str) and ours["backend"]:
            ours["backend"] = self._backend_name(ours["backend"], place)
        platforms = ours.get("platforms")
        if isinstance(platforms, dict):
            ours["platforms"] = {
                each: dict(self._known(inner, _below(place, f"platforms.{each}"), PLATFORM_KEYS, PLATFORM_ANSWER_KEYS))
                if isinstance(inner, dict)
                else inner
                for each, inner in platforms.items()
            }
            for each, inner in platforms.items():
                for key in PLATFORM_UNUSED_KEYS:
                    if isinstance(inner, dict) and inner.get(key):
                        self.result.lost(_below(place, f"platforms.{each}.{key}"), _UNUSED)
        self._keep(OwnedKind.POOL, name, ours, place)

    def _known(
        self, body: Mapping[str, Any], place: SourcePlace, keys: tuple[str, ...], state: frozenset[str]
    ) -> Iterator[tuple[str, Any]]:
        """The values that are configuration here; a report line for each other one."""
        for key, value in body.items():
            if key in keys:
                yield key, value
            elif key in state or key.startswith(PARSED_PREFIX):
                self.result.state(_below(place, key), "what OSMO computed, not configuration.")
            else:
                self.result.lost(_below(place, key), "OSMO Admin has no such configuration.")

    def _backend_name(self, foreign: str, place: SourcePlace) -> str:
        if not self.options.writes_backend:
            first = next((name for section, name in self.names if section == "backends"), foreign)
            if first != foreign and ("backends", foreign) not in self.names:
                self.result.decide(place, f"the files have the clusters {first} and {foreign}; all pools are on one.")
            self.names["backends", foreign] = self.options.backend
        if ("backends", foreign) not in self.names:
            self.names["backends", foreign] = self.backends.claim(foreign, place)
        return self.names["backends", foreign]

    def _read_backend(self, foreign: str, body: Mapping[str, Any], place: SourcePlace) -> None:
        kept = dict(body)
        for key, value in body.items():
            if key in BACKEND_STATE:
                self.result.state(_below(place, key), "what the backend reported, not configuration.")
            elif value in (None, "", [], {}):
                self.result.state(_below(place, key), "the value is empty.")
            else:
                continue
            del kept[key]
        settings = kept.get("scheduler_settings")
        for key, value in settings.items() if isinstance(settings, dict) else ():
            if (key, value) == ("scheduler_type", "kai"):
                self.result.state(_below(place, f"scheduler_settings.{key}"), "clusters here have KAI.")
            elif key != "scheduler_name":
                self.result.lost(_below(place, f"scheduler_settings.{key}"), "OSMO Admin has no such configuration.")
        notes = ConfigurationFiles()
        form = backend_form(foreign, kept, notes)
        for note in notes.notes:
            self.result.lost(place, note)
        name = self._backend_name(foreign, place)
        if not self.options.writes_backend:
            self.result.became(place, f"pools name the cluster {name}, which the installation must have already.")
            return
        if form["type"] == "kubernetes" and "type" not in body:
            self.result.decide(
                place,
                "a cluster that the process itself runs in (access: in_cluster). Name a kubeconfig_file for another.",
            )
        self._keep(OwnedKind.BACKEND, name, form, place)

    def _read_settings(self, section: Mapping[str, Any], path: str, place: Callable[[str], SourcePlace]) -> None:
        ours = {key: section[key] for key in SETTINGS_DEFAULTS if key in section}
        for key in section:
            if key not in ours:
                self.result.lost(place(f"{path}.{key}".strip(".")), "OSMO Admin has no such configuration.")
        if ours:
            self._keep(OwnedKind.SETTINGS, SETTINGS_NAME, ours, place(path))


def _require_key(objects: list[Any], keys: tuple[str, ...], whose: str, place: Callable[[str], SourcePlace]) -> None:
    """Raises BadSource for a list with an object that has none of these keys: it is of another kind."""
    for at, each in enumerate(objects):
        if isinstance(each, dict) and not each.keys() & set(keys):
            raise BadSource.at(
                place(f"[{at}]"), f"a list is read as {whose}, and this object has no {keys[0]}. Give another file."
            )


def _below(place: SourcePlace, key: str) -> SourcePlace:
    return SourcePlace(place.file, place.line, f"{place.key}.{key}")
