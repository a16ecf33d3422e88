"""What Git owns is read-only for every other writer, whichever way it comes; the rest stays with the admins."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import IntegrityError, connection, transaction

from pools.domain.changes.backends import PutBackend
from pools.domain.changes.cohorts import DeleteCohort, PutCohort
from pools.domain.changes.gpu_quotas import DeleteGpuQuota, PutGpuQuota
from pools.domain.changes.pools import DeletePool, PatchPool, PutPool, RenamePool
from pools.domain.changes.subpools import CreateSubpool, DeleteSubpool, ResizeSubpool
from pools.domain.changes.users import CreateUser, GrantRole, RevokeRole, SetActive
from pools.domain.configuration.ownership import OwnedKind, OwnerKind
from pools.domain.errors import Conflict, DomainError, Fault
from pools.domain.people.roles import SYSTEM
from pools.models import AuditEntry, Backend, ConfigurationOwner, Node, Pool, User
from pools.services.changes.ownership import find_owner, release
from pools.services.configuration.subpools import end_temporary_quotas
from scheduling.configuration.comparison import ObjectAction
from scheduling.configuration.files import BadFiles, ConfigurationFiles, read_file
from scheduling.domain.changes.settings import UpdateSettings
from scheduling.selectors.cluster.configuration import read_configuration, read_owners
from scheduling.services.configuration import (
    ApplyOptions,
    apply_configuration,
    compare_configuration,
    configuration_effect,
)
from tests.support.world import apply_change, make_subpool

pytestmark = pytest.mark.django_db

FILE = """\
backends:
  sim:
    namespace: ns
    nodes: [{name: n1, gpus: 64}]
pools:
  team:
    backend: sim
    cohort: all
    resources: {gpu: {guarantee: 32}}
    subpools: {a: 8}
  strict:
    backend: sim
    resources: {gpu: {guarantee: 16}}
    subpools: {x: 4, y: 8}
    subpools_owner: git
  bare: {backend: sim}
cohorts:
  all: {quotas: [{resource: gpu, nominal: 4}]}
gpu_quotas:
  prod: {total: {maxWorkers: 3}}
roles:
  osmo-viewer: {users: [ann]}
  osmo-team-admin: {users: [tom]}
workflow: {subpool_drain_interval_minutes: 5}
"""
GIT = ApplyOptions("git@example.com/config", commit="0123456789abcdef")


def files_of(text: str, path: str = "all.yaml") -> ConfigurationFiles:
    found = ConfigurationFiles()
    read_file(path, text.encode(), found)
    return found


def apply(text: str, options: ApplyOptions = GIT) -> list[tuple[str, str]]:
    applied = apply_configuration(actor=SYSTEM, files=files_of(text), options=options)
    return [(str(each.action), each.label) for each in applied.comparison.changes]


@pytest.fixture
def installed() -> None:
    apply(FILE)


def refusal_of(operation: Callable[[], object]) -> Conflict:
    with pytest.raises(Conflict) as refused, transaction.atomic():
        operation()
    return refused.value


WRITES: dict[str, Callable[[], object]] = {
    "a pool": lambda: apply_change(PatchPool(name="team", patch={"description": "x"})),
    "a pool, put": lambda: apply_change(PutPool(name="bare", body={"backend": "sim", "description": "x"})),
    "a pool's name": lambda: apply_change(RenamePool(name="bare", new_name="other")),
    "a pool, deleted": lambda: apply_change(DeletePool(name="bare")),
    "a backend": lambda: apply_change(PutBackend(name="sim", body={"description": "x"})),
    "a backend's nodes": lambda: apply_change(PutBackend(name="sim", body={"nodes": []})),
    "a cohort": lambda: apply_change(PutCohort(name="all", body={})),
    "a cohort, deleted": lambda: apply_change(DeleteCohort(name="all", orphan=True)),
    "a GPU quota": lambda: apply_change(PutGpuQuota(namespace="prod", spec={})),
    "a GPU quota, deleted": lambda: apply_change(DeleteGpuQuota(namespace="prod")),
    "a role, granted": lambda: apply_change(GrantRole(username="ann", role_name="osmo-team-admin")),
    "a role, revoked": lambda: apply_change(RevokeRole(username="ann", role_name="osmo-viewer")),
    "a role of a new user": lambda: apply_change(CreateUser(id="new", roles=["osmo-viewer"])),
    "settings": lambda: apply_change(UpdateSettings(max_retry_per_task=3)),
    "a new subpool": lambda: apply_change(CreateSubpool(parent="strict", subpool_name="z", quota=1)),
    "a subpool's quota": lambda: apply_change(ResizeSubpool(parent="strict", subpool_name="x", quota=2)),
    "a subpool, deleted": lambda: apply_change(DeleteSubpool(parent="strict", subpool_name="y")),
}


def test_each_service_refuses_what_git_owns_and_says_where_it_comes_from(installed: None) -> None:
    for what, operation in WRITES.items():
        refusal = refusal_of(operation)
        (violation,) = refusal.violations
        assert violation.code == Fault.OWNED_BY_GIT, what
        found = violation.as_dict()
        assert found["owner"] == "git"
        assert found["source"] == "git@example.com/config"
        assert found["path"] == "" or found["path"] == "all.yaml"
        assert found["commit"] == "0123456789abcdef"
        assert "git@example.com/config, all.yaml, commit 0123456789ab" in refusal.message
        assert "osmo-admin release" in refusal.message


def test_subpools_stay_with_the_admins_of_the_pool(installed: None) -> None:
    make_subpool("team", "b", 4)
    apply_change(ResizeSubpool(parent="team", subpool_name="a", quota=2))
    apply_change(DeleteSubpool(parent="team", subpool_name="b"))
    assert apply(FILE) == []
    assert Pool.objects.get(name="team--a").last_quota == 2


def test_what_operation_needs_still_works(installed: None) -> None:
    apply_change(PutBackend(name="sim", body={"offline": True}))
    assert Backend.objects.get(name="sim").offline
    apply_change(PutPool(name="free", body={"backend": "sim"}))
    apply_change(GrantRole(username="ann", role_name="osmo-free-user"))
    assert end_temporary_quotas() == 0


def test_files_change_their_own_objects_and_prune_removes_them(installed: None) -> None:
    changed = FILE.replace("x: 4, y: 8", "x: 2, z: 9").replace("users: [ann]", "users: [ann, bo]")
    changed = changed.replace("gpu_quotas:\n  prod: {total: {maxWorkers: 3}}\n", "")
    assert apply(changed) == [("change", "pools.strict"), ("change", "roles.osmo-viewer")]
    assert ConfigurationOwner.objects.filter(name="prod").exists()
    assert apply(changed, ApplyOptions(GIT.source, prune=True)) == [("remove", "gpu_quotas.prod")]
    assert not ConfigurationOwner.objects.filter(name="prod").exists()
    quotas = dict(Pool.objects.filter(parent__name="strict", subpool_state="ACTIVE").values_list("name", "last_quota"))
    assert quotas == {"strict--x": 2, "strict--z": 9}
    with pytest.raises(BadFiles) as refused, transaction.atomic():
        apply("workflow: {}\n", ApplyOptions(GIT.source, prune=True))
    (violation,) = [each for each in refused.value.details if each.path == "pools.team.subpools"]
    assert violation.code == "has_slices"  # the subpools of the admins are not deleted for them


def test_a_disabled_account_keeps_its_roles_in_the_files(installed: None) -> None:
    """Else each file would be refused until somebody enables the account, and an export would lose the role."""
    apply_change(SetActive(username="tom", active=False))
    assert apply(FILE) == []
    assert apply(FILE.replace("users: [tom]", "users: []")) == [("change", "roles.osmo-team-admin")]
    assert User.objects.get(username="tom").groups.count() == 0


def test_a_pool_and_its_subpools_trade_gpus_in_one_step(installed: None) -> None:
    less = FILE.replace("{guarantee: 16}", "{guarantee: 6}").replace("x: 4, y: 8", "x: 1, y: 5")
    assert apply(less) == [("change", "pools.strict")]
    assert apply(FILE) == [("change", "pools.strict")]


def test_cohorts_swap_places_in_one_step() -> None:
    apply("cohorts: {a: {}, b: {parent: a}, c: {parent: b}}")
    assert len(apply("cohorts: {c: {}, b: {parent: c}, a: {parent: b}}")) == 3
    with pytest.raises(BadFiles) as refused:
        apply("cohorts:\n  c: {parent: a}\n  b: {parent: c}\n  a: {parent: b}\n")
    assert {each.code for each in refused.value.details} == {"cycle"}
    assert {each.line for each in refused.value.details} <= {2, 3, 4}


def test_adopt_and_release(installed: None) -> None:
    release(actor=SYSTEM, kind=OwnedKind.POOL, name="team")
    apply_change(PatchPool(name="team", patch={"description": "by hand"}))
    assert apply(FILE) == [("change", "pools.team")]
    assert find_owner(OwnedKind.POOL, "team") is not None
    release(actor=SYSTEM, kind=OwnedKind.POOL, name="team")
    assert apply(FILE) == [("adopt", "pools.team")]
    mine = ApplyOptions(GIT.source, owner=OwnerKind.ADMIN)
    assert {action for action, _ in apply(FILE, mine)} == {"release"}
    assert not ConfigurationOwner.objects.exists()
    actions = AuditEntry.objects.filter(object="owner/pool/team").values_list("action", flat=True)
    assert list(actions.order_by("id")) == [
        "owner.taken", "owner.released", "owner.taken", "owner.released", "owner.taken", "owner.released"
    ]  # fmt: skip


def test_one_source_owns_an_object(installed: None) -> None:
    with pytest.raises(DomainError) as refused:
        apply("pools:\n  team: {backend: sim}\n", ApplyOptions("elsewhere"))
    (violation,) = refused.value.details
    assert (violation.code, violation.line) == (Fault.OWNED_BY_GIT, 2)
    assert violation.as_dict()["source"] == GIT.source


def test_a_refusal_has_every_fault_and_writes_nothing(installed: None) -> None:
    bad = FILE.replace("guarantee: 32", "guarantee: 7").replace("guarantee: 16", "guarantee: 11")
    before = read_configuration(read_owners())
    with pytest.raises(BadFiles) as refused, transaction.atomic():
        apply(bad.replace("users: [ann]", "users: [ann, zoe]"))
    assert [each.line for each in refused.value.details] == [9, 13]
    assert {each.as_dict()["file"] for each in refused.value.details} == {"all.yaml"}
    assert read_configuration(read_owners()) == before


def test_the_effect_is_that_of_apply_and_writes_nothing(installed: None) -> None:
    changed = FILE.replace("{guarantee: 32}", "{guarantee: 40}")
    before = read_configuration(read_owners())
    effect = configuration_effect(actor=SYSTEM, files=files_of(changed), options=GIT)
    assert effect["dry_run"] is True
    assert effect["before"]["pools"]["team"]["resources"]["gpu"]["guarantee"] == 32
    assert effect["after"]["pools"]["team"]["resources"]["gpu"]["guarantee"] == 40
    assert [each["object"] for each in effect["differences"]] == ["pools.team"]
    assert {"may_be_reclaimed", "could_start", "could_no_longer_start"} <= effect.keys()
    assert read_configuration(read_owners()) == before
    refused = configuration_effect(actor=SYSTEM, files=files_of(FILE.replace("32", "7")), options=GIT)
    assert refused["after"] is None
    assert refused["violations"][0]["line"] == 9


RAW_WRITES = {
    "pools_pool:owned_by_git": "UPDATE pools_pool SET weight = 7 WHERE name = 'team'",
    "pools_pool:subpools_owned_by_git": "UPDATE pools_pool SET last_quota = 1 WHERE name = 'strict--x'",
    "pools_backend:owned_by_git": "UPDATE pools_backend SET description = 'x'",
    "pools_node:owned_by_git": "UPDATE pools_node SET gpus = 99",
    "pools_cohort:owned_by_git": "UPDATE pools_cohort SET weight = 7",
    "pools_gpuquota:owned_by_git": "UPDATE pools_gpuquota SET spec = '{}'",
    "pools_roleassignment:owned_by_git": "DELETE FROM pools_roleassignment",
    "scheduling_workflowconfig:owned_by_git": "UPDATE scheduling_workflowconfig SET max_retry_per_task = 9",
}


@pytest.mark.parametrize("statement", RAW_WRITES.values(), ids=RAW_WRITES)
def test_raw_sql_is_refused(installed: None, statement: str) -> None:
    with pytest.raises(IntegrityError) as refused, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    assert refused.value.__cause__.diag.constraint_name == Fault.OWNED_BY_GIT  # type: ignore[union-attr]


def test_raw_sql_on_a_cluster_is_refused(installed: None) -> None:
    from tests.support.agent_harness import kubernetes_backend

    row = kubernetes_backend("ns", "far")
    ConfigurationOwner.objects.create(kind="backend", name=row.name, source="git")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE pools_kubernetessettings SET credential_mark = 'renewed'")
        with pytest.raises(IntegrityError), transaction.atomic():
            cursor.execute("UPDATE pools_kubernetessettings SET sync_mode = 'off'")


def test_an_owner_has_a_source_and_an_object_one_owner() -> None:
    ConfigurationOwner.objects.create(kind="pool", name="p", source="git")
    for name, source, rule in (("p", "other", "one_owner"), ("q", "", "owner_has_source")):
        with pytest.raises(IntegrityError, match=rule), transaction.atomic():
            ConfigurationOwner.objects.create(kind="pool", name=name, source=source)
    assert not Node.objects.exists()
    assert ObjectAction.KEEP == "keep"
    assert compare_configuration(files_of("pools: {}"), GIT).changes == ()
