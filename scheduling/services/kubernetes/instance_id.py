"""The id of a running installation, by which two installations exclude each other in a cluster."""

from __future__ import annotations

from pools.database.statements import execute_sql
from pools.models import Backend
from scheduling.services.kubernetes import heartbeats

INSTANCE_ID_QUERY = """
    SELECT left(encode(sha256(convert_to(concat_ws('/', %s::text, oid, extract(epoch FROM pg_postmaster_start_time())),
                                         'UTF8')), 'hex'), 20)
    FROM pg_database WHERE datname = current_database()
"""


def read_instance_id(backend: Backend) -> str:
    """An id that all processes of this installation share and no other running installation has: 20 hexadecimal
    digits. A restored copy has the same rows, so the database server's start and the database's own number are part
    of it."""
    identity = heartbeats.cluster_state(backend).identity
    (found,) = execute_sql(INSTANCE_ID_QUERY, [str(identity)]).fetchone()
    return str(found)
