"""Django's `migrate`, as the owner of the database; afterwards the role at run time gets its grants."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import DEFAULT_DB_ALIAS, ProgrammingError, connection
from psycopg.errors import InsufficientPrivilege

from osmo_admin.processes import database_roles
from osmo_admin.processes.database_server import refuse_unfit_server
from osmo_admin.processes.migration_states import added_in_place


class Command(migrate.Command):
    """With `OSMO_OWNER_DATABASE_URL` the migrations run as this owner; without, as the role of `DATABASE_URL`."""

    help = migrate.Command.help

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with added_in_place():
                self._migrate(*args, **options)
        except ProgrammingError as problem:
            if not isinstance(problem.__cause__, InsufficientPrivilege):
                raise
            raise CommandError(
                f"The role {connection.settings_dict['USER']} may not change tables ({str(problem).splitlines()[0]}). "
                "Name the role that owns them in OSMO_OWNER_DATABASE_URL."
            ) from problem

    def _migrate(self, *args: Any, **options: Any) -> None:
        role = database_roles.runtime_role() if options["database"] == DEFAULT_DB_ALIAS else None
        parameters = connection.get_connection_params()
        refuse_unfit_server(parameters)
        if role is None:
            super().handle(*args, **options)
            name = str(connection.settings_dict["USER"])
        else:
            name = role.name
            with database_roles.connected_as_owner():
                refuse_unfit_server(connection.get_connection_params())
                database_roles.refuse_another_database(parameters)
                database_roles.take_ownership(role)
                super().handle(*args, **options)
                database_roles.grant_rows(name)
        if (warning := database_roles.powers_warning(name)) is not None:
            self.stderr.write(self.style.WARNING(warning))
