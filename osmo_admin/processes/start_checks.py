"""The checks of each process before it begins to work: its settings, the server of its database, and that its secret
key is that of the database."""

from __future__ import annotations

import os

import psycopg
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.utils.log import configure_logging

from osmo_admin.checks import refuse_unsafe_settings
from osmo_admin.monitoring.logs import PROCESS_VARIABLE
from osmo_admin.processes.database_server import refuse_unfit_server
from osmo_admin.processes.operator_errors import exit_with_message
from osmo_admin.variables import warn_of_unknown_variables
from pools.security.sealing import OTHER_KEY, find_reading_key


def end_unless_fit(process: str) -> None:
    """Called by each process of the installation, with its name for the log, when it starts. Ends it with exit code 1
    and one message, if :func:`refuse_unfit_process` refuses it; else its log names the variables that nobody reads."""
    os.environ[PROCESS_VARIABLE] = process
    with exit_with_message():
        refuse_unfit_process()
        configure_logging(settings.LOGGING_CONFIG, settings.LOGGING)
    warn_of_unknown_variables()


def refuse_unfit_process() -> None:
    """Raises ImproperlyConfigured with the reason. A database that does not answer, or has no table yet, refuses
    nothing: processes wait for it, and `/ready` compares the keys later."""
    refuse_unsafe_settings()
    refuse_unfit_server(connection.get_connection_params())
    sealed = _read_check()
    if sealed is not None and find_reading_key(sealed) is None:
        raise ImproperlyConfigured(OTHER_KEY)


def _read_check() -> str | None:
    """The sealed text by which processes know their key; over a connection of its own, because the caller may fork."""
    try:
        with psycopg.connect(**connection.get_connection_params()) as session:
            found = session.execute("SELECT to_regclass('pools_secretkeycheck')").fetchone()
            if found is None or found[0] is None:  # before the migrations; a query would leave an ERROR in the log
                return None
            row = session.execute("SELECT sealed FROM pools_secretkeycheck WHERE id = 1").fetchone()
    except psycopg.Error:
        return None
    return None if row is None else str(row[0])
