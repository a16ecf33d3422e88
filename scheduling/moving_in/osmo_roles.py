"""Roles of OSMO 6 → roles here: policies decide there, and names here.

A policy allows or denies actions (`workflow:Create`, `workflow:*`) on resources (`pool/team`; a `*` at the end is a
prefix, so `pool/team*` is `pool/team2`, too). What a policy allows becomes the roles that allow the same, and each
action without such a role is named. The people of a role are in other answers of OSMO: accounts with their roles, or
the groups of an identity provider.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pools.domain.configuration.ownership import OwnedKind
from pools.domain.people.roles import PLATFORM_ADMIN, PLATFORM_VIEWER, PoolRoleKind, pool_role
from pools.domain.people.user_names import user_name_violations
from pools.domain.structured_input.faults import join_words, shorten
from scheduling.configuration.bodies import USERS
from scheduling.moving_in.result import BadSource, ImportResult, SourcePlace

POLICIES: Final = "policies"
MAX_GRANTS: Final = 300_000
_OF_EVERYBODY: Final = "everybody who has signed in may do this for themselves."
_INTERNAL: Final = ("osmo-backend", "osmo-ctrl")
_STATE: Final = {
    "description": "a role here has no description.",
    "immutable": "roles here have fixed permissions.",
    "name": "the name of the role.",
    "created_at": "when the role was made.",
    "created_by": "who made the role.",
}
_ON_POOLS: Final = ("workflow:Create", "workflow:Cancel", "pool:Update")
"""Actions on pools that a role here allows: submit, cancel the work of others, divide the pool."""
_OWN: Final = frozenset({"auth", "profile", "system"})
_READ: Final = frozenset({"workflow:List", "workflow:Read", "pool:List", "resources:Read", "user:List"})

Place = Callable[[str], SourcePlace]


@dataclass(frozen=True, slots=True)
class _Policy:
    is_allowed: bool
    actions: tuple[tuple[str, SourcePlace], ...]
    resources: tuple[str, ...]
    place: SourcePlace

    def names_action(self, action: str) -> bool:
        """Whether one of its actions is this one."""
        return any(_matches_action(pattern, action) for pattern, _ in self.actions)

    def names_pool(self, pool: str) -> bool:
        """Whether one of its resources is this pool."""
        return any(_matches_resource(pattern, f"pool/{pool}") for pattern in self.resources)


@dataclass(slots=True)
class _SourceRole:
    name: str
    place: SourcePlace
    policies: list[_Policy]
    users: set[str]
    groups: list[str]
    grants: dict[str, None] = field(default_factory=dict)


class OsmoRoles:
    """The roles and accounts of one set of files. `write` adds the roles, once the pools are known."""

    def __init__(self, result: ImportResult) -> None:
        self.result = result
        self.roles: list[_SourceRole] = []
        self.people: dict[str, dict[str, SourcePlace]] = {}

    def read_role(self, name: str, body: Mapping[str, Any], path: str, place: Place) -> None:
        """One role with policies."""
        policies = list(self._read_policies(body.get(POLICIES) or [], f"{path}.{POLICIES}", place))
        users = _texts(body.get(USERS) or [], place(f"{path}.{USERS}"))
        groups = _texts(body.get("external_roles") or [], place(f"{path}.external_roles"))
        for key in body:
            if key in _STATE:
                self.result.state(place(f"{path}.{key}"), _STATE[key])
            elif key == "sync_mode":
                self.result.decide(
                    place(f"{path}.{key}"), f"{body[key]}: here it is one setting for all roles, SYNC of the provider."
                )
            elif key not in (POLICIES, USERS, "external_roles"):
                self.result.lost(place(f"{path}.{key}"), "OSMO Admin has no such configuration.")
        self.roles.append(_SourceRole(name, place(path), policies, set(users), groups))

    def read_account(self, body: Mapping[str, Any], path: str, place: Place) -> None:
        """One account with its roles, as `GET /api/auth/user/NAME` answers."""
        name = body["id"]
        if not isinstance(name, str):
            raise BadSource.at(place(f"{path}id"), "the name of an account is a text.")
        for key in body:
            if key not in ("id", "roles"):
                self.result.state(place(f"{path}{key}"), "when and by whom the account was made.")
        roles = body.get("roles") or []
        if not isinstance(roles, list):
            raise BadSource.at(place(f"{path}roles"), "this must be a list of roles.")
        if not roles:
            self.result.state(place(path), "an account without roles.")
        for at, role in enumerate(roles):
            given = role.get("role_name") if isinstance(role, dict) else role
            if not isinstance(given, str):
                raise BadSource.at(place(f"{path}roles[{at}]"), "this must be a role with its role_name.")
            self.people.setdefault(given, {}).setdefault(name, place(f"{path}roles[{at}]"))

    def write(self, pools: Mapping[str, str]) -> None:
        """Add the roles that the policies become. `pools` are the names here by the names of the source."""
        found: dict[str, set[str]] = {}
        places: dict[str, SourcePlace] = {}
        for role in self.roles:
            _RoleReader(role, pools, self.result).read()
            users = role.users | set(self.people.pop(role.name, {}))
            self._tell_people(role, users)
            for granted in role.grants:
                if users:
                    found.setdefault(granted, set()).update(users)
                    places.setdefault(granted, role.place)
        for name, accounts in self.people.items():
            for account, place in accounts.items():
                if name in _INTERNAL or name == "osmo-default":
                    self.result.state(place, "a role of OSMO's own software, or of everybody.")
                elif name == PLATFORM_ADMIN:
                    found.setdefault(name, set()).add(account)
                    places.setdefault(name, place)
                else:
                    self.result.decide(place, f"{account} has the role {name}, which the files do not have. Add it.")
        if sum(map(len, found.values())) > MAX_GRANTS:
            raise BadSource.at(
                next(iter(places.values())), f"the people would have more than {MAX_GRANTS:,} roles together."
            )
        for name, users in sorted(found.items()):
            self._add(name, users, places[name])

    def _tell_people(self, role: _SourceRole, users: set[str]) -> None:
        if not role.grants:
            return
        names = join_words(role.grants)
        if role.groups:
            pairs = ";".join(f"{shorten(group)}={'+'.join(role.grants)}" for group in role.groups)
            self.result.decide(
                role.place,
                f"groups of the identity provider give it: set ROLES of the provider to {pairs} (sign-on.md).",
            )
        elif not users:
            self.result.decide(
                role.place,
                f"gives {names}, and the files do not say to whom. Add the answers of GET /api/auth/user/NAME, or give "
                "the roles by hand.",
            )
        if users:
            self.result.became(role.place, f"its people have {names}.")

    def _add(self, name: str, users: Iterable[str], place: SourcePlace) -> None:
        valid = []
        for user in sorted(users):
            if faults := user_name_violations(user):
                self.result.decide(place, f"the name of a person is not valid here: {faults[0].message}")
            else:
                valid.append(user)
        key = (OwnedKind.ROLE, name)
        if key in self.result.objects:
            valid = [*self.result.objects[key][USERS], *valid]
        if valid:
            self.result.add(OwnedKind.ROLE, name, {USERS: sorted(set(valid))}, place)

    def _read_policies(self, given: Any, path: str, place: Place) -> Iterator[_Policy]:
        if not isinstance(given, list):
            raise BadSource.at(place(path), "this must be a list of policies.")
        for at, policy in enumerate(given):
            inner = f"{path}[{at}]"
            if not isinstance(policy, dict):
                raise BadSource.at(place(inner), "a policy must be a map.")
            effect = policy.get("effect", "Allow")
            if effect not in ("Allow", "Deny"):
                raise BadSource.at(place(f"{inner}.effect"), "the effect of a policy is Allow or Deny.")
            for key in policy:
                if key not in ("effect", "actions", "resources"):
                    self.result.lost(place(f"{inner}.{key}"), "a policy has no such key.")
            actions = []
            for number, action in enumerate(_listed(policy.get("actions") or [], place(f"{inner}.actions"))):
                where = place(f"{inner}.actions[{number}]")
                if isinstance(action, dict):
                    self.result.lost(where, "an action by address, as before OSMO 6: give its roles by hand.")
                elif not isinstance(action, str) or action.count(":") != 1:
                    self.result.lost(where, "not an action such as pool:List.")
                else:
                    actions.append((action, SourcePlace(where.file, where.line, f"{where.key} {action}")))
            if not actions:
                self.result.lost(place(inner), "a policy without an action that is known.")
            resources = _texts(policy.get("resources") or [], place(f"{inner}.resources"))
            yield _Policy(effect == "Allow", tuple(actions), tuple(resources), place(inner))


class _RoleReader:
    """The roles here that one role of the source gives."""

    def __init__(self, role: _SourceRole, pools: Mapping[str, str], result: ImportResult) -> None:
        self.role, self.pools, self.result = role, pools, result
        self.denies = [policy for policy in role.policies if not policy.is_allowed]

    def read(self) -> None:
        """Note the roles, and say what has none."""
        if self.role.name in _INTERNAL:
            self.result.state(self.role.place, "a role of OSMO's own software, which has no account here.")
            return
        for policy in self.role.policies:
            if not policy.is_allowed:
                self.result.lost(policy.place, "nothing is denied here: what it denies is left out of the roles.")
                continue
            for action, place in policy.actions:
                self._read_action(policy, action, place)
        if not self.role.policies:
            self.result.state(self.role.place, "a role that allows nothing.")

    def _read_action(self, policy: _Policy, action: str, place: SourcePlace) -> None:
        word = action.partition(":")[0]
        if action == "*:*" and "*" in policy.resources and not self.denies:
            self._grant(PLATFORM_ADMIN, place)
            return
        is_known = self._read_pools(policy, action, place)
        if word in _OWN:
            self.result.state(place, _OF_EVERYBODY)
        elif word == "*":
            self.result.lost(place, "only osmo-admin may do everything; the roles of pools have less.")
        elif word == "config":
            words = "reads" if action == "config:Read" else "changes"
            role = PLATFORM_VIEWER if action == "config:Read" else PLATFORM_ADMIN
            self.result.decide(
                place, f"only {role} {words} the whole configuration here. Give it to those who need it by hand."
            )
        elif action in _READ:
            self.result.decide(
                place,
                f"people see the pools of their roles and the work there. Who shall see all needs {PLATFORM_VIEWER}.",
            )
        elif not is_known:
            self.result.lost(place, "no role here has such a permission.")

    def _read_pools(self, policy: _Policy, action: str, place: SourcePlace) -> bool:
        """Whether the action is one on pools; the roles of these pools are noted."""
        wanted = [known for known in _ON_POOLS if _matches_action(action, known)]
        if not wanted:
            return False
        for pattern in policy.resources:
            if not pattern.startswith("pool/") and pattern != "*":
                self.result.lost(place, f"{shorten(pattern)}: no role here is for it.")
                continue
            found = [name for name in self.pools if _matches_resource(pattern, f"pool/{name}")]
            if not found:
                self.result.decide(place, f"{shorten(pattern)}: the files have no such pool. Add it.")
            elif pattern.endswith("*") and pattern not in ("*", "pool/*") and len(found) > 1:
                self.result.decide(
                    place, f"{shorten(pattern)} names several pools: {join_words(sorted(found))}. Confirm it."
                )
            for name in found:
                self._grant_pool(name, wanted, place)
        if not policy.resources:
            self.result.lost(place, "a policy without resources allows this nowhere.")
        return True

    def _grant_pool(self, name: str, wanted: list[str], place: SourcePlace) -> None:
        left = [
            action
            for action in wanted
            if not any(deny.names_action(action) and deny.names_pool(name) for deny in self.denies)
        ]
        if "pool:Update" in left:
            self._grant(pool_role(self.pools[name], PoolRoleKind.ADMIN), place)
        elif "workflow:Create" in left:
            self._grant(pool_role(self.pools[name], PoolRoleKind.USER), place)
            if "workflow:Cancel" in left:
                self.result.lost(
                    place,
                    f"only the admins of pool {self.pools[name]} cancel the work of others here "
                    f"({pool_role(self.pools[name], PoolRoleKind.ADMIN)}).",
                )
        elif left:
            self.result.lost(place, "here only the admins of a pool cancel the work of others.")

    def _grant(self, role: str, place: SourcePlace) -> None:
        self.role.grants[role] = None
        self.result.became(place, f"the role {role}.")


def _matches_action(pattern: str, action: str) -> bool:
    kind, _, verb = pattern.partition(":")
    known, _, other = action.partition(":")
    return kind in ("*", known) and verb in ("*", other)


def _matches_resource(pattern: str, resource: str) -> bool:
    return resource.startswith(pattern[:-1]) if pattern.endswith("*") else pattern == resource


def _listed(value: Any, place: SourcePlace) -> list[Any]:
    if not isinstance(value, list):
        raise BadSource.at(place, "this must be a list.")
    return value


def _texts(value: Any, place: SourcePlace) -> list[str]:
    found = _listed(value, place)
    if not all(isinstance(each, str) and each for each in found):
        raise BadSource.at(place, "this must be a list of texts.")
    return found
