"""A connection with exactly the rights of the manifests, checked like RBAC of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from scheduling.kube import rbac
from scheduling.kube.connection import errors, resource_kinds
from scheduling.kube.connection.port import Cluster

_VERBS = {
    "list": ("list",),
    "watch": ("watch",),
    "get": ("get",),
    "read_log": ("get",),
    "apply": ("patch", "create"),  # an apply of a missing object creates it
    "create": ("create",),
    "merge": ("patch",),
    "delete": ("delete",),
}


@dataclass
class RbacCluster:
    """Work runs in `namespace`. `used_rights` are the needed rights: (resource, verb)."""

    real: Cluster
    namespace: str
    used_rights: set[tuple[str, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        roles = {item["kind"]: item["rules"] for item in rbac.rbac_manifests(self.namespace) if "rules" in item}
        self._wide, self._inside = (_flatten_rules(roles[kind]) for kind in ("ClusterRole", "Role"))

    def take_away(self, resource: str, verb: str) -> set[tuple[str, str, str, str]]:
        """Take a right of the namespace away; returns what `restore` takes."""
        taken = {right for right in self._inside if right[1:3] == (resource, verb)}
        assert taken
        self._inside -= taken
        return taken

    def restore(self, rights: set[tuple[str, str, str, str]]) -> None:
        """Grant rights of the namespace again."""
        self._inside |= rights

    def __getattr__(self, verb: str) -> Any:
        real = getattr(self.real, verb)
        if verb not in _VERBS:
            return real

        def call(kind: Any, *arguments: Any, **options: Any) -> Any:
            if verb == "read_log":
                kind, arguments = resource_kinds.POD_LOG, (kind, *arguments)
            named = arguments[0] if arguments and isinstance(arguments[0], dict) else {"metadata": {}}
            where = options.get("namespace") or named["metadata"].get("namespace")
            rights = self._wide | (self._inside if where == self.namespace else set())
            resource = f"{kind.plural}/status" if options.get("status") else kind.plural
            name = named["metadata"].get("name", "") or next((each for each in arguments if isinstance(each, str)), "")
            for needed in _VERBS[verb]:
                if not {(kind.group, resource, needed, each) for each in ("", name)} & rights:
                    raise errors.AccessDenied(
                        f"{needed} {resource} in {where or 'the cluster'} is forbidden", status=403
                    )
                self.used_rights.add((resource, needed))
            return real(*([] if verb == "read_log" else [kind]), *arguments, **options)

        return call


def _flatten_rules(rules: list[dict[str, list[str]]]) -> set[tuple[str, str, str, str]]:
    """Group, resource, verb and name of each right; no name means every name."""
    return {
        (group, resource, verb, name)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }
