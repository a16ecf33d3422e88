"""The settings of the product, in an installation that takes over the request ids of its clients, as behind a proxy.

With them an audit entry names the call of the record that made it, also where the answer was lost.
"""

from osmo_admin.settings import *  # noqa: F403

DJANGO_STRUCTLOG_TRUST_UPSTREAM_REQUEST_ID = True
