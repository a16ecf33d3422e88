"""The world of a test: clusters, pools, people and work, each made through the services, and the people's browsers and
API clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.db import connection, transaction
from django.test import Client

from osmo_admin.access.sessions import SessionStore
from pools.domain.approvals import ApprovalNeeded
from pools.domain.changes.command import ChangeCommand
from pools.domain.changes.subpools import CreateSubpool, ResizeSubpool
from pools.domain.changes.tokens import CreateToken
from pools.domain.changes.users import CreateUser
from pools.domain.people.roles import SYSTEM, Actor
from pools.models import AccessToken, ApprovalRequest, Backend, Node, Pool, Reservation, User
from pools.services.configuration import (
    approvals,
    backends,
    cohorts,
    config_history,
    config_rollback,
    pools,
    subpool_quotas,
    subpools,
)
from pools.services.gpu_quota import gpu_allocations, gpu_quotas
from pools.services.people import access_tokens, accounts, notice_targets, saved_views, users
from pools.sign_on import accounts as sign_on
from scheduling import migrations
from scheduling.domain.priorities import Priority
from scheduling.models import Group, Task, Workflow
from scheduling.services import workflow_config
from scheduling.services.simulated.reconcile import reconcile_backend
from scheduling.services.webhooks import queue_guard
from scheduling.services.workflows import user_actions
from scheduling.services.workflows.submission import (
    Submission,
    SubmissionReceipt,
    prepare_submissions,
    submit,
    submit_prepared,
)
from tests.support.api_client import ApiClient

SERVICES = (
    access_tokens, accounts, approvals, backends, cohorts, config_history, config_rollback, gpu_allocations, gpu_quotas,
    notice_targets, pools, queue_guard, saved_views, sign_on, subpool_quotas, subpools, user_actions, users,
    workflow_config,
)  # fmt: skip

ModuleData = Callable[[], AbstractContextManager[None]]
"""What the fixture `module_data` is."""


def apply_change(command: ChangeCommand, *, actor: Actor = SYSTEM, **options: Any) -> Any:
    """Make a change by its service, as the entry points do; returns and raises what the service does."""
    (service,) = {getattr(each, command.service) for each in SERVICES if hasattr(each, command.service)}
    return service(command, actor=actor, **options)


def make_backend(
    name: str = "sim", *, namespace: str = "ns", nodes: int = 4, gpus: int = 32, auto_end: bool = False
) -> Backend:
    """A simulated backend with nodes; work on it ends only when reported, unless `auto_end`."""
    row, created = Backend.objects.get_or_create(
        name=name, defaults={"namespace": namespace, "auto_end": auto_end, "kind": Backend.Kind.SIMULATED}
    )
    if created:
        Node.objects.bulk_create(
            [Node(backend=row, name=f"{name}-n{index}", gpus=gpus) for index in range(1, nodes + 1)]
        )
    return row


def make_pool(name: str = "team", guarantee: int = 100, *, on: Backend | None = None, **subpools: int) -> Pool:
    """A pool with ACTIVE subpools, `make_pool("team", 100, a=30, b=40)`."""
    row = Pool.objects.create(name=name, backend=on or make_backend(), guarantee=guarantee, maximum=-1, weight=1)
    users.create_pool_roles(name)
    for short, quota in subpools.items():
        make_subpool(name, short, quota)
    return row


def make_subpool(parent: str, name: str, quota: int) -> Pool:
    """An ACTIVE subpool."""
    row: Pool = apply_change(CreateSubpool(parent=parent, subpool_name=name, quota=quota)).row
    return row


def make_user(name: str, *roles: str) -> Actor:
    """A user with these roles."""
    user: User = apply_change(CreateUser(id=name, roles=roles))
    return user.as_actor()


def call_as(name: str, *, token_roles: tuple[str, ...] | None = None) -> ApiClient:
    """A program of a user, with a new token of all roles of its owner or of these."""
    command = CreateToken(owner=name, name=f"t{AccessToken.objects.count()}", roles=token_roles)
    return ApiClient(apply_change(command)[0])


def sign_in(user: str | User, **options: Any) -> Client:
    """A browser in which a user is signed in; the options are those of Django's client. The session is written, as a
    login leaves it: what a login does besides takes ten statements, and its own tests have it."""
    browser = Client(**options)
    row = user if isinstance(user, User) else User.objects.get(username=user)
    session = SessionStore()
    session[SESSION_KEY], session[HASH_SESSION_KEY] = str(row.pk), row.get_session_auth_hash()
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session.save()
    browser.cookies[settings.SESSION_COOKIE_NAME] = session.session_key
    return browser


def request_quota(actor: Actor, pool: str, subpool: str, quota: int) -> ApprovalRequest:
    """A waiting request for a quota that needs an approval."""
    command = ResizeSubpool(parent=pool, subpool_name=subpool, quota=quota)
    try:
        apply_change(command, actor=actor)
    except ApprovalNeeded as need:
        return approvals.request_approval(command, actor=actor, need=need)
    raise AssertionError(f"{quota} GPUs for {pool}--{subpool} need no approval")


def workflow_file(name: str = "job", gpus: int = 1, **labels: str) -> str:
    """A workflow file of one task."""
    lines = [f"workflow:\n  name: {name}"]
    if labels:
        lines.append("  labels: {" + ", ".join(f"{key}: '{value}'" for key, value in labels.items()) + "}")
    lines.append("  tasks:\n  - {name: train, image: ubuntu, command: [sh], resource: r}")
    lines.append(f"  resources:\n    r: {{gpu: {gpus}}}\n")
    return "\n".join(lines)


def submit_workflow(
    actor: Actor, to: str, gpus: int = 1, *, name: str = "job", priority: Priority = Priority.NORMAL
) -> Workflow:
    """A workflow on a leaf."""
    receipt = submit(actor=actor, pool=to, submission=Submission(file=workflow_file(name, gpus), priority=priority))
    assert receipt.workflow is not None
    return receipt.workflow


def reconcile(backend: str = "sim") -> dict[str, Any]:
    """Run the scheduler of a simulated cluster until it rests; the answer with its steps."""
    answer = reconcile_backend(Backend.objects.get(name=backend).pk)
    assert answer["settled"]
    return answer


def check_submission(*, actor: Actor, pool: str, submission: Submission) -> SubmissionReceipt:
    """The dry run of `submit`."""
    prepared = prepare_submissions(actor=actor, pool=pool, submissions=[submission])
    return submit_prepared(actor=actor, prepared=prepared, is_dry_run=True)[0]


def make_reservation(leaf: str, gpus: int, *, priority: Priority = Priority.LOW, needs: int = 0) -> None:
    """A reservation of GPUs on a leaf, without a workflow."""
    Reservation.objects.create(
        workflow=uuid4(), workflow_name=f"held-{uuid4().hex[:8]}", pool=Pool.objects.get(name=leaf), owner="somebody",
        priority=str(priority), held_gpus=gpus, needed_gpus=max(gpus, needs),
    )  # fmt: skip


def set_gang_tree(
    workflow: str, gang: dict[str, Any], *, gpus: int, sub_groups: Mapping[str, str] | None = None
) -> None:
    """Give the one gang of a waiting workflow a tree, in the format of its row, whose minimum requests `gpus`;
    `sub_groups` names the leaf of each task."""
    row = Group.objects.get(workflow__name=workflow)
    Group.objects.filter(pk=row.pk).update(gang=gang, gpus=gpus)
    Reservation.objects.filter(workflow=row.workflow_id).update(needed_gpus=gpus)
    for name, leaf in (sub_groups or {}).items():
        Task.objects.filter(group=row, name=name).update(sub_group=leaf)


def admin_actor() -> Actor:
    """The platform admin, as a user with work of its own."""
    user = User.objects.filter(username="root-admin").first()
    return user.as_actor() if user else make_user("root-admin", "osmo-admin")


def check_deferred_constraints() -> None:
    """Check deferred constraints now; a test in a rolled-back transaction never commits."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")


def run_bridge(*texts: str) -> None:
    """Run the statements of the upgrade from commit 29ed02b4 that have one of these texts; it has no triggers then."""
    statements = (Path(migrations.__path__[0]) / "from_29ed02b4.sql").read_text(encoding="utf-8").split(";\n")
    found = [each for each in statements if any(text in each for text in texts)]
    assert found
    with transaction.atomic(), triggers_off(), connection.cursor() as cursor:
        for each in found:
            cursor.execute(each)


@contextmanager
def triggers_off() -> Iterator[None]:
    """Inside, no trigger of the database fires, in this transaction: for damage that the triggers prevent."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        yield
        cursor.execute("SET LOCAL session_replication_role = origin")
