"""`sync`: write the queues of Kubernetes backends now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from osmo_admin.cli.server_commands.options import DataDirOption, use_django
from pools.domain.values.counting import counted

if TYPE_CHECKING:
    from pools.models import Backend
    from scheduling.services.kubernetes.syncing.sync_outcome import SyncOutcome


def sync(
    backend: Annotated[
        list[str] | None, typer.Option(help="Only this backend; may be repeated. Default: every Kubernetes backend.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the planned writes and write nothing.")] = False,
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over",
            help="Take over queues in our namespace that belong to another installation: use it after the database was "
            "created again.",
        ),
    ] = False,
    data_dir: DataDirOption = None,
) -> None:
    """Write the queues of each cluster where they differ from the ledger. Exit code 1 if one is not in sync then."""
    use_django(data_dir)
    from pools.models import Backend
    from pools.services.configuration.backends import get_backend

    rows = [get_backend(name) for name in backend or ()] or list(
        Backend.objects.filter(kind=Backend.Kind.KUBERNETES).order_by("name")
    )
    if not rows:
        print("There is no Kubernetes backend.")
        return
    if not all([_sync_one(row, dry_run=dry_run, take_over=take_over) for row in rows]):  # noqa: C419  (all are synced)
        raise typer.Exit(1)


def _sync_one(row: Backend, *, dry_run: bool, take_over: bool) -> bool:
    """Sync one backend and print the outcome. True if it is in sync."""
    from scheduling.kube.connection.error_messages import error_message
    from scheduling.kube.connection.errors import ClusterError
    from scheduling.services.kubernetes.leases import AlreadyClaimed
    from scheduling.services.kubernetes.syncing.queue_sync import sync_backend_queues
    from scheduling.services.kubernetes.syncing.sync_comparison import preview_sync

    try:
        outcome = (
            preview_sync(row, take_over=take_over)
            if dry_run
            else sync_backend_queues(row.pk, manual=True, take_over=take_over)
        )
    except ClusterError as error:
        print(f"{row.name}: {error_message(error)}")
        return False
    except AlreadyClaimed as busy:
        print(f"{row.name}: {busy.message}")
        return False
    _print_outcome(outcome, dry_run=dry_run)
    return dry_run or outcome.synced == "True"


def _print_outcome(outcome: SyncOutcome, *, dry_run: bool) -> None:
    print(f"{outcome.backend}:")
    for line in outcome.drift:
        print(f"  ! {line}")
    for line in outcome.written:
        print(f"  + {line}")
    for line in outcome.remaining:
        print(f"  {'+' if dry_run else '-'} {line}")
    for line in outcome.untouched:
        print(f"  = left alone: {line}")
    if dry_run:
        writes = len(outcome.remaining)
        print(f"  {counted(writes, 'write')} would be made." if writes else "  Nothing to do.")
    else:
        print(f"  {outcome.message}")
