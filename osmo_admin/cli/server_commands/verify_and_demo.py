"""`verify` and `demo`: check the ledger, and create demo data."""

from __future__ import annotations

import typer

from osmo_admin.cli.server_commands.options import DataDirOption, use_django


def verify(data_dir: DataDirOption = None) -> None:
    """Recompute every counter and invariant and print each difference. Exit code 1 if there is one."""
    use_django(data_dir)
    from scheduling.services.verify import verify as find_differences

    differences = list(find_differences())
    for difference in differences:
        print(difference)
    if differences:
        raise typer.Exit(1)
    print("Verified: every counter equals its recount and every invariant holds.")


def demo(data_dir: DataDirOption = None) -> None:
    """Create realistic demo data: 12 pools, 40 subpools, 26 users, and a month of their work."""
    use_django(data_dir)
    from osmo_admin.processes.database_roles import as_owner_if_known
    from scheduling.demo.seed import seed_demo

    with as_owner_if_known():  # it invents history, which the role at run time may not write
        seed_demo()
    print("The demo data is created.")
