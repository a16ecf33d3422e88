"""Prepare the database for serving: migrations, defaults, the first user, and a demo on request; and static files.

`python -m osmo_admin.processes.bootstrap [--demo]`, with the first user's password in `OSMO_ADMIN_PASSWORD`. It may be
run any number of times and prints one JSON object, `{"admin_created": bool, "demo": bool}`.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import sys

from osmo_admin.processes.operator_errors import exit_with_message
from pools.domain.changes.users import CreateUser

FIRST_ADMIN = "admin"


def prepare_database(*, demo: bool, password: str | None) -> dict[str, bool]:
    """The first user is created only if there is no user: a renamed or deleted admin is not created again. Its password
    has to keep the rules only on a server for others (`OSMO_SECURE`). Raises BadInput."""
    from django.conf import settings
    from django.core.management import call_command

    from osmo_admin.web.static_build import build_static_files

    build_static_files(settings.STATIC_SOURCES, settings.STATIC_BUILDS)
    call_command("migrate", verbosity=0, interactive=False)

    from pools.domain.people.roles import PLATFORM_ADMIN, SYSTEM
    from pools.models import User
    from pools.services.changes.secret_key import claim_database
    from pools.services.people.users import create_user
    from scheduling.services.seed import seed_defaults

    claim_database()
    seed_defaults()
    first = bool(password) and not User.objects.exists()
    if first:
        create_user(
            CreateUser(id=FIRST_ADMIN, roles=(PLATFORM_ADMIN,)),
            actor=SYSTEM,
            password=password,
            skip_password_rules=not settings.OSMO.secure,
        )
    if first and demo:
        from osmo_admin.processes.database_roles import as_owner_if_known
        from pools.database.statements import execute_sql
        from scheduling.demo.seed import seed_demo

        with as_owner_if_known():  # the role at run time may not write invented history
            execute_sql("SET synchronous_commit = off")  # hundreds of commits of data that can be made again
            seed_demo()
    return {"admin_created": first, "demo": first and demo}


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m osmo_admin.processes.bootstrap", description=__doc__)
    parser.add_argument("--demo", action="store_true", help="create demo data if there is no user yet")
    arguments = parser.parse_args()
    logging.disable(logging.INFO)  # the output is one object; warnings are shown
    with exit_with_message():
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_admin.settings")
        from osmo_admin.processes.django_setup import set_up_django
        from osmo_admin.processes.start_checks import end_unless_fit

        end_unless_fit("prepare")
        set_up_django()
        gc.disable()  # it ends in seconds, and a tenth of its processor time were searches for garbage
        print(json.dumps(prepare_database(demo=arguments.demo, password=os.environ.get("OSMO_ADMIN_PASSWORD"))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
