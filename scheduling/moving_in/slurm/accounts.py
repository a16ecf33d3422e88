"""Slurm: the accounts of `sacctmgr dump` → cohorts, pools, subpools and roles; QOS → a proposal of priorities.

A limit of Slurm is a ceiling and guarantees nothing: it becomes the maximum, and with `--guarantee limit` the quota
too. GPUs of nodes that no quota has are the own quota of the cohort at the top, so that LOW work of all pools shares
them by weight, as fair share does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pools.domain.configuration.ownership import OwnedKind
from pools.domain.names import LABEL_LIMIT
from pools.domain.people.roles import PoolRoleKind, pool_role
from pools.domain.people.user_names import user_name_violations
from pools.domain.structured_input.faults import shorten
from pools.domain.values.amounts import DEFAULT_FLAVOR, NO_LIMIT
from pools.domain.values.counting import counted
from scheduling.moving_in.names import NameRegister, longest_pool_name, longest_subpool_name
from scheduling.moving_in.options import ALL_KINDS, GuaranteeFrom, ImportOptions
from scheduling.moving_in.result import BadSource, ImportResult, SourcePlace
from scheduling.moving_in.simulated_backend import FoundNodes, add_backend
from scheduling.moving_in.slurm.kinds import TOTAL, Ceiling, GpuKinds, find_kinds, read_ceiling, types_of_limits
from scheduling.moving_in.slurm.lines import SlurmLine, read_lines, read_time, read_tres
from scheduling.moving_in.slurm.nodes import read_slurm_nodes
from scheduling.moving_in.source_text import SourceText

ROOT: Final = "root"
MAX_GRANTS: Final = 300_000
NODES_HINT: Final = "Add slurm.conf, or the output of: scontrol show node -o."
USE_PARENT: Final = frozenset({"parent", "2147483647"})
MAX_WALL: Final = ("maxwall", "maxwalldurationperjob", "maxwalldurperjob", "maxwallduration")
HISTORY: Final = SourcePlace("options", 1, "--guarantee history")
_MINUTES: Final = "there is no budget of GPU-hours: quotas bound what runs at one time."
_NO_KEYS: Final = "there are no keys for charging work: pools and people are in the usage record."
_ACCOUNT_KEYS: Final[Mapping[str, str]] = {
    "grptresmins": _MINUTES,
    "grpcpumins": _MINUTES,
    "grptresrunmins": _MINUTES,
    "maxtresmins": _MINUTES,
    "maxtresrunmins": _MINUTES,
    "maxtresminsperjob": _MINUTES,
    "maxcpumins": _MINUTES,
    "maxprocsecondsperjob": _MINUTES,
    "grpwall": _MINUTES,
    "qos": "everybody of a pool may submit as HIGH, NORMAL or LOW; see the lines of the QOS.",
    "defaultqos": "work names its priority; without one it is NORMAL.",
    "partition": "a partition has no counterpart: work names a pool and a platform.",
    "wckeys": _NO_KEYS,
    "defaultwckey": _NO_KEYS,
    "defaultaccount": "a person names the pool, or sets one once: osmo profile set pool NAME.",
}
_OTHER_LIMIT: Final = "this limit of jobs, nodes, other resources or single people has no counterpart."
_SCHEDULING: Final = ("priority", "preempt", "sched", "fairshare", "enforcepartlimits", "accountingstorageenforce")


@dataclass(slots=True)
class _Account:
    name: str
    parent: str
    line: SlurmLine
    children: list[_Account] = field(default_factory=list)
    users: list[SlurmLine] = field(default_factory=list)
    level: int = 0
    ceiling: Ceiling = field(default_factory=Ceiling)
    weight: int = 1
    longest: int | None = None

    def below(self) -> Iterator[_Account]:
        """The accounts below, parents first."""
        open_ones = list(reversed(self.children))
        while open_ones:
            account = open_ones.pop()
            yield account
            open_ones += reversed(account.children)


def read_slurm(sources: list[SourceText], result: ImportResult, options: ImportOptions) -> None:
    """Read the files of a Slurm cluster. Raises BadSource."""
    lines = [line for source in sources for line in read_lines(source)]
    types = types_of_limits(lines)
    nodes = read_slurm_nodes(
        [line for line in lines if line.word == "node"], [line for line in lines if line.word == "gres"], result,
        types_of_limits=types,
    )  # fmt: skip
    kinds = find_kinds(nodes, types, result, options)
    add_backend(nodes, result, options, hint=NODES_HINT, flavors=kinds.backend_flavors())
    _report_settings((line for line in lines if line.word == "setting"), result)
    _report_qos([line for line in lines if line.word == "QOS"], lines, result)
    accounts, cluster = _read_accounts(lines, result)
    if len(accounts) == 1:
        result.decide(SourcePlace("options", 1), "the files have no account. Add the output of: sacctmgr dump CLUSTER.")
    _AccountWriter(accounts, cluster, nodes, kinds, result, options).write()


def _read_accounts(lines: list[SlurmLine], result: ImportResult) -> tuple[dict[str, _Account], SlurmLine | None]:
    """The accounts by name with their parents and users, the root first, and the line of the cluster."""
    root_line = SlurmLine("Account", ROOT, {}, {}, SourcePlace("options", 1))
    accounts = {ROOT: _Account(ROOT, "", root_line)}
    cluster: SlurmLine | None = None
    parent = ROOT
    for line in lines:
        name = line.name.lower()
        if line.word == "Cluster":
            if cluster is not None:
                raise BadSource.at(line.place, "this is a second cluster. Import one cluster at a time.")
            cluster = line
        elif line.word == "Parent":
            if name not in accounts:
                raise BadSource.at(
                    line.place, f"the account {line.name} is not above this line, where its Parent needs it."
                )
            parent = name
            result.state(line.place, "the account above the lines that follow.")
            for key, value in line.fields.items():
                place = SourcePlace(line.place.file, line.place.line, f"Parent {line.name} {line.keys[key]}={value}")
                result.lost(place, "a Parent line only names the account; its values stand in its own line.")
        elif line.word == "Account" and (name != ROOT or accounts[ROOT].line is not root_line):
            if name in accounts:
                first = accounts[name].line.place
                raise BadSource.at(line.place, f"the account {line.name} is given twice, here and in {first}.")
            accounts[name] = _Account(name, parent, line, level=accounts[parent].level + 1)
            accounts[parent].children.append(accounts[name])
        elif line.word == "Account":
            result.state(line.place, "the account at the top.")
            accounts[ROOT].line = line
        elif line.word == "User":
            accounts[parent].users.append(line)
    return accounts, cluster


class _AccountWriter:
    """The objects of the accounts."""

    def __init__(
        self,
        accounts: dict[str, _Account],
        cluster: SlurmLine | None,
        nodes: FoundNodes,
        kinds: GpuKinds,
        result: ImportResult,
        options: ImportOptions,
    ) -> None:
        self.accounts, self.cluster, self.nodes, self.result, self.options = accounts, cluster, nodes, result, options
        self.kinds, self.platforms = kinds, nodes.platforms
        self.pools = NameRegister("pool", longest_pool_name(options.namespace), result)
        self.cohorts = NameRegister("cohort", LABEL_LIMIT, result)
        self.pool_of: dict[str, str] = {}
        self.roles: dict[str, set[str]] = {}
        self.role_places: dict[str, SourcePlace] = {}
        self.guaranteed: dict[str, dict[str, int]] = {}
        """The quotas below each account, by flavor."""
        self.pools_below: dict[str, list[str]] = {}
        self.grants = 0

    def write(self) -> None:
        """All accounts, then the roles of their people."""
        root = self.accounts[ROOT]
        if self.cluster is not None:
            self._read_limits(root, self.cluster, is_cluster=True)
        self._read_limits(root, root.line, is_cluster=True)
        for account in root.below():
            account.longest = self.accounts[account.parent].longest
            self._read_limits(account, account.line)
        if self.options.guarantee is GuaranteeFrom.HISTORY:
            self._guarantee_use([account for account in root.below() if not self._is_cohort(account)])
        is_nested = any(self._is_cohort(account) for account in root.children)
        top = self._claim_top() if is_nested else ""
        self._add_below(root, top)
        if top:
            self._add_top(top)
        for account in [root, *root.below()]:
            for line in account.users:
                self._add_user(account, line)
        for role, users in sorted(self.roles.items()):
            self.result.add(OwnedKind.ROLE, role, {"users": sorted(users)}, self.role_places[role])

    def _is_cohort(self, account: _Account) -> bool:
        depth = self.options.depth
        return bool(account.children) and (depth is None or account.level < depth)

    def _read_limits(self, account: _Account, line: SlurmLine, *, is_cluster: bool = False) -> None:
        """What a line says about an account besides its name; every key is in the report."""
        for key, value in line.fields.items():
            place = SourcePlace(line.place.file, line.place.line, f"{line.word} {line.name} {line.keys[key]}={value}")
            if key in ("description", "organization"):
                if self._is_cohort(account) or is_cluster:
                    self.result.lost(place, "a cohort has no description.")
                else:
                    self.result.became(place, "in the description of the pool; a subpool has none.")
            elif key == "fairshare" and is_cluster:
                self.result.state(place, "the top of the tree has no weight.")
            elif key == "fairshare":
                self._read_weight(account, value, place)
            elif key == "grptres":
                self._read_ceiling(account, value, place, is_cluster=is_cluster)
            elif key in MAX_WALL:
                account.longest = read_time(value, place)
                self.result.became(place, "the longest run of work in the pools of this account (max_exec_timeout).")
            else:
                self.result.lost(place, _ACCOUNT_KEYS.get(key, _OTHER_LIMIT))

    def _read_weight(self, account: _Account, value: str, place: SourcePlace) -> None:
        if value.lower() in USE_PARENT:
            self.result.decide(
                place, "this account shares with its parent's other users; it has the weight 1. Confirm it."
            )
        elif not value.isascii() or not value.isdigit() or len(value) > 9:
            raise BadSource.at(place, "a share is a whole number or the word parent.")
        else:
            account.weight = int(value)
            self.result.became(place, f"weight {value}.")

    def _read_ceiling(self, account: _Account, value: str, place: SourcePlace, *, is_cluster: bool) -> None:
        tres = read_tres(value, place)
        for key in tres:
            if key != TOTAL and not key.startswith(f"{TOTAL}:"):
                self.result.lost(place, f"{key}: pools have a quota of GPUs only.")
        if is_cluster:
            if any(key.startswith(TOTAL) for key in tres):
                self.result.lost(place, "the whole cluster has no ceiling; its nodes bound it.")
            return
        ceiling = account.ceiling = read_ceiling(tres, self.kinds, place, self.result, self.options)
        if ceiling.is_bounded:
            also = "and is the quota too" if ceiling.quota else "and guarantees nothing"
            self.result.became(place, f"a ceiling of {ceiling.text()} GPUs: it bounds all work below it {also}.")

    def _guarantee_use(self, accounts: Sequence[_Account]) -> None:
        """Quotas from what the accounts that run work usually used, together at most the nodes."""
        self._report_other_use({account.name for account in accounts})
        usual = {account.name: self._usual(account) for account in accounts}
        for kind in self.kinds.names:
            there = self.kinds.gpus.get(kind, 0)
            total = sum(row.get(kind, 0) for row in usual.values())
            if total > there > 0:
                self.result.decide(
                    HISTORY,
                    f"the accounts usually used {counted(total, 'GPU')}{self._of(kind)} together, and the nodes "
                    f"have {there}: each quota is less in proportion.",
                )
                for row in usual.values():
                    row[kind] = row.get(kind, 0) * there // total
        for account in accounts:
            account.ceiling = replace(account.ceiling, quotas={**account.ceiling.quotas, **usual[account.name]})
        for account in reversed(accounts):  # children come after their parents
            above = self.accounts[account.parent]
            if not self._is_cohort(above):
                quotas = dict(above.ceiling.quotas)
                for kind in self.kinds.names:
                    most = above.ceiling.limits.get(kind)
                    quota = quotas.get(kind, 0) + account.ceiling.quotas.get(kind, 0)
                    quotas[kind] = quota if most is None else min(quota, most)
                above.ceiling = replace(above.ceiling, quotas=quotas)

    def _report_other_use(self, names: Collection[str]) -> None:
        """The teams of the history that are not accounts which run work here: nothing gets a quota for their use."""
        for note in self.options.past_use.notes:
            self.result.state(HISTORY, note)
        for team in sorted(self.options.past_use.teams.keys() - names):
            uses = dict(self.options.past_use.teams[team])
            together = uses.pop(ALL_KINDS, None)
            used = "; ".join(
                f"GPUs of {kind}: {use.text()}" if kind and self.kinds.flavors else use.text()
                for kind, use in ([("", together)] if together and not self.kinds.flavors else uses.items())
            )
            account = self.accounts.get(team)
            if account is None:
                place, why = HISTORY, f"the history has an account {shorten(team)} that the files do not have"
            else:
                place, why = account.line.place, f"the account {team} is a cohort, in which nobody submits"
            self.result.decide(place, f"{why}; it used GPUs: {used}. This use is in no quota.")

    def _usual(self, account: _Account) -> dict[str, int]:
        """The GPUs by flavor that the account usually used, at most its ceiling."""
        found: dict[str, int] = dict.fromkeys(self.kinds.names, 0)
        place = account.line.place
        uses = dict(self.options.past_use.teams.get(account.name, {}))
        together = uses.pop(ALL_KINDS, None)
        if together is not None and not self.kinds.flavors:
            uses = {DEFAULT_FLAVOR: together}
        for kind, use in uses.items():
            name = kind if kind in found else DEFAULT_FLAVOR
            if name not in found:
                self.result.decide(place, f"it used GPUs of an unknown kind ({use.text()}), which are in no quota.")
                continue
            found[name] += use.usual
            self.result.became(place, f"it used GPUs{self._of(name)}: {use.text()}.")
        if not uses:
            self.result.decide(place, f"the history has no job of the account {account.name}, so its quota is 0.")
        for name, limit in account.ceiling.limits.items():
            found[name] = found[name] if limit is None else min(found[name], limit)
        return found

    def _of(self, kind: str) -> str:
        return f" of {kind}" if self.kinds.flavors else ""

    def _claim_top(self) -> str:
        name = self.cluster.name if self.cluster is not None else "slurm"
        return self.cohorts.claim(name, self.cluster.place if self.cluster else SourcePlace("options", 1))

    def _add_top(self, name: str) -> None:
        place = self.cluster.place if self.cluster is not None else SourcePlace("options", 1)
        below = self.guaranteed[ROOT]
        own = {kind: max(0, self.kinds.gpus.get(kind, 0) - below[kind]) for kind in self.kinds.names}
        rows = self.kinds.rows({kind: {"nominal": gpus} for kind, gpus in own.items()})
        self.result.add(OwnedKind.COHORT, name, {"quotas": rows}, place)
        if self.nodes.nodes:
            self.result.became(
                place,
                f"cohorts.{name} has {counted(sum(own.values()), 'GPU')} of its own: what the quotas of pools leave "
                "of the nodes.",
            )
        else:
            self.result.decide(
                place,
                f"cohorts.{name} should own all GPUs that no pool has, or LOW work cannot start. {NODES_HINT}",
            )

    def _add_below(self, above: _Account, cohort: str) -> None:
        """The accounts below one, deepest parents last, so that each cohort knows what is guaranteed below it."""
        order: list[tuple[_Account, str]] = [(child, cohort) for child in above.children]
        made: list[tuple[_Account, str, str]] = []
        while order:
            account, inside = order.pop(0)
            if self._is_cohort(account):
                name = self.cohorts.claim(account.name, account.line.place)
                made.append((account, name, inside))
                order += [(child, name) for child in account.children]
            else:
                self._add_pool(account, inside)
        for account, name, inside in reversed(made):
            self._add_cohort(account, name, inside)
        self.guaranteed[ROOT] = self._sum_below(above)

    def _add_cohort(self, account: _Account, name: str, inside: str) -> None:
        below = self.guaranteed[account.name] = self._sum_below(account)
        amounts: dict[str, dict[str, int]] = {kind: {"nominal": 0} for kind in self.kinds.names}
        for kind, limit in account.ceiling.limits.items():
            if limit is not None:
                amounts[kind]["borrowing_limit"] = max(0, limit - below[kind])
        body: dict[str, Any] = {"parent": inside, "weight": account.weight, "quotas": self.kinds.rows(amounts)}
        self.result.add(OwnedKind.COHORT, name, body, account.line.place)
        self.result.became(account.line.place, f"cohorts.{name}.")

    def _sum_below(self, account: _Account) -> dict[str, int]:
        """The quotas of the accounts right below, by flavor."""
        rows = [self.guaranteed.get(child.name, {}) for child in account.children]
        return {kind: sum(row.get(kind, 0) for row in rows) for kind in self.kinds.names}

    def _add_pool(self, account: _Account, cohort: str) -> None:
        name = self.pools.claim(account.name, account.line.place)
        ceiling, quota = account.ceiling, account.ceiling.quota
        self.guaranteed[account.name] = ceiling.quotas
        body: dict[str, Any] = {"backend": self.options.backend, "resources": self._resources(account)}
        if cohort:
            body["cohort"] = cohort
        about = [account.line.fields.get(key, "") for key in ("description", "organization")]
        if any(about):
            body["description"] = ", ".join(filter(None, about))
        if account.longest is not None:
            body["max_exec_timeout"] = _duration(account.longest)
        if self.platforms and self.platforms != ["default"]:
            body |= {"platforms": {each: {} for each in self.platforms}, "default_platform": self.platforms[0]}
        self.pool_of[account.name] = name
        if subpools := self._subpools(account, name):
            body["subpools"] = subpools
        self.result.add(OwnedKind.POOL, name, body, account.line.place)
        shown = f"the maximum {ceiling.text()}" if ceiling.is_bounded else "no maximum"
        self.result.became(account.line.place, f"pools.{name} has the quota {quota} and {shown}.")
        if quota == 0:
            self.result.decide(
                account.line.place,
                f"pools.{name} has the quota 0, so only LOW work runs in it. Give it what the team is promised.",
            )

    def _resources(self, account: _Account) -> dict[str, Any]:
        """The amounts of a pool."""
        limits, quotas = account.ceiling.limits, account.ceiling.quotas
        if not self.kinds.flavors:
            limit = limits.get(DEFAULT_FLAVOR)
            maximum = NO_LIMIT if limit is None else limit
            return {"gpu": {"guarantee": account.ceiling.quota, "maximum": maximum, "weight": account.weight}}
        bounds = {kind: {} if limit is None else {"maximum": limit} for kind, limit in limits.items()}
        rows = {kind: {"guarantee": quotas.get(kind, 0), **bounds.get(kind, {})} for kind in self.kinds.flavors}
        return {"gpu": {"weight": account.weight}, "flavors": rows}

    def _subpools(self, account: _Account, pool: str) -> dict[str, Any]:
        names = NameRegister("subpool", longest_subpool_name(self.options.namespace, pool), self.result)
        found: dict[str, dict[str, int]] = {}
        nothing = dict.fromkeys(self.kinds.names, 0)
        for each in account.below():
            short = names.claim(each.name, each.line.place)
            self.pool_of[each.name] = pool
            found[short] = nothing if each.children else {**nothing, **each.ceiling.quotas}
            quota = sum(found[short].values())
            self.result.became(each.line.place, f"pools.{pool}.subpools.{short} has the quota {quota}.")
            if each.ceiling.is_bounded:
                self.result.lost(
                    each.line.place, f"a subpool has a quota and no maximum: the ceiling {each.ceiling.text()} is lost."
                )
            if each.weight != 1:
                self.result.lost(each.line.place, f"a subpool has no weight: {each.weight} is lost.")
            if each.children:
                self.result.decide(
                    each.line.place,
                    "subpools have no subpools: the accounts below it become subpools of the same pool.",
                )
        for kind in self.kinds.names:
            most = account.ceiling.quotas.get(kind, 0)
            if sum(row[kind] for row in found.values()) > most:
                self.result.decide(
                    account.line.place,
                    f"the ceilings{self._of(kind)} of its subpools are above {most}, so their quotas are 0.",
                )
                found = {short: {**row, kind: 0} for short, row in found.items()}
        return {short: row if self.kinds.flavors else row[DEFAULT_FLAVOR] for short, row in found.items()}

    def _add_user(self, account: _Account, line: SlurmLine) -> None:
        for key, value in line.fields.items():
            place = SourcePlace(line.place.file, line.place.line, f"User {line.name} {line.keys[key]}={value}")
            if key == "adminlevel":
                if value.lower() != "none":
                    self.result.decide(
                        place,
                        f"{value}: give the role by hand, because a role in a file lists all of its people: "
                        f"osmo-admin user roles {line.name} --help.",
                    )
            elif key == "coordinator":
                self._add_coordinator(line, value, place)
            elif key == "fairshare" and value.lower() in {"1", *USE_PARENT}:
                self.result.state(place, "the usual share; people of a pool share alike.")
            elif key == "comment":
                self.result.state(place, "a remark about the person.")
            else:
                self.result.lost(
                    place, _ACCOUNT_KEYS.get(key, "people have no weight or limit of their own in a pool.")
                )
        if account.name == ROOT:
            self.result.state(line.place, "a user of the account at the top, which runs no work here.")
        elif account.name in self.pool_of:
            self._give(line, self.pool_of[account.name], PoolRoleKind.USER)
        else:
            self.result.decide(
                line.place,
                f"the account {account.name} has accounts below it and is a cohort, in which nobody submits. Give "
                f"{line.name} a role of a pool below it, or import with --depth {account.level}.",
            )

    def _add_coordinator(self, line: SlurmLine, value: str, place: SourcePlace) -> None:
        names = [word.strip().lower() for word in value.split(",") if word.strip()]
        if not names:
            self.result.state(place, "names no account.")
        for name in names:
            account = self.accounts.get(name)
            if account is None:
                self.result.decide(place, f"the files do not have the account {name}.")
                continue
            pools = self._pools_below(account)
            self.result.became(place, f"the role osmo-POOL-admin of {counted(len(pools), 'pool')} of {name}.")
            for pool in pools:
                self._give(line, pool, PoolRoleKind.ADMIN)

    def _pools_below(self, account: _Account) -> list[str]:
        """The pools of an account and of those below it, found once."""
        if account.name not in self.pools_below:
            names = (self.pool_of.get(each.name) for each in [account, *account.below()])
            self.pools_below[account.name] = list(dict.fromkeys(name for name in names if name))
        return self.pools_below[account.name]

    def _give(self, line: SlurmLine, pool: str, kind: PoolRoleKind) -> None:
        if faults := user_name_violations(line.name):
            self.result.decide(line.place, f"the name of the person is not valid here: {faults[0].message}")
            return
        self.grants += 1
        if self.grants > MAX_GRANTS:
            raise BadSource.at(line.place, f"the people would have more than {MAX_GRANTS:,} roles of pools together.")
        role = pool_role(pool, kind)
        self.role_places.setdefault(role, line.place)
        self.roles.setdefault(role, set()).add(line.name)
        self.result.became(line.place, f"roles.{role} has {line.name}.")


def _report_settings(lines: Iterable[SlurmLine], result: ImportResult) -> None:
    for line in lines:
        if "partitionname" in line.fields:
            keys = ", ".join(line.keys[key] for key in line.fields if key != "partitionname")
            result.lost(line.place, f"a partition has no counterpart ({keys}): work names a pool and a platform.")
            continue
        for key in line.fields:
            place = SourcePlace(line.place.file, line.place.line, line.keys[key])
            if key.startswith(_SCHEDULING):
                result.lost(place, "how Slurm orders and preempts work; docs/waiting.md says how it is here.")
            else:
                result.state(place, "a setting of Slurm itself.")


def _report_qos(lines: list[SlurmLine], every_line: list[SlurmLine], result: ImportResult) -> None:
    """A proposal for each QOS: LOW if another may preempt it, HIGH above the QOS `normal`, else NORMAL."""
    used = next((line for line in every_line if line.fields.keys() & {"qos", "defaultqos"}), None)
    if used is not None and not lines:  # as dumps of Slurm before 25.05 are
        result.decide(used.place, "the files do not have its QOS. Add the output of: sacctmgr -P show qos.")
    last = {line.name.lower(): line for line in lines}  # newer dumps have what `show qos` prints, too
    for line in lines:
        if (later := last[line.name.lower()]) is not line:
            for key in ("", *(f" {line.keys[key]}={value}" for key, value in line.fields.items())):
                place = SourcePlace(line.place.file, line.place.line, f"QOS {line.name}{key}")
                result.state(place, f"the same QOS is read in {later.place}.")
    lines = list(last.values())
    preempted = {name.strip().lower() for line in lines for name in line.fields.get("preempt", "").split(",")} - {""}
    usual = next((_priority(line) for line in lines if line.name.lower() == "normal"), 0)
    for line in lines:
        priority = _priority(line)
        word = "LOW" if line.name.lower() in preempted else "HIGH" if priority > usual else "NORMAL"
        result.decide(
            line.place,
            f"priority {priority}: submit its work as {word}. Only LOW work borrows and is preempted; "
            f"HIGH and NORMAL work stays within its quota. In the proof: --priority-of {line.name}={word}. Confirm it.",
        )
        for key, value in line.fields.items():
            place = SourcePlace(line.place.file, line.place.line, f"QOS {line.name} {line.keys[key]}={value}")
            if key in ("priority", "preempt"):
                result.became(place, f"read for the proposal {word}.")
            elif key in ("description", "preemptmode", "usagefactor") or not value.strip("0:."):
                result.state(place, "not needed for the proposal.")
            else:
                result.lost(place, _ACCOUNT_KEYS.get(key, "a limit of a QOS has no counterpart; pools have limits."))


def _priority(line: SlurmLine) -> int:
    text = line.fields.get("priority", "0") or "0"
    if not text.isascii() or not text.isdigit() or len(text) > 10:
        raise BadSource.at(line.place, "the priority of a QOS is a whole number.")
    return int(text)


def _duration(seconds: int) -> str:
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
