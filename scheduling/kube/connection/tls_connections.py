"""HTTPS connections to an API server that leave no open socket behind when they fail."""

from __future__ import annotations

import urllib3
from urllib3.connection import HTTPSConnection
from urllib3.connectionpool import HTTPSConnectionPool
from urllib3.util.ssl_ import create_urllib3_context

from pools.security.tls_sockets import close_unfinished


class TlsConnection(HTTPSConnection):
    """Closes its socket also when the server resets the connection before TLS begins, as one does that is killed."""

    def connect(self) -> None:
        """Connect with a context of its own, made as urllib3 makes it."""
        context = create_urllib3_context(
            cert_reqs=self.cert_reqs,  # type: ignore[arg-type]  # a number after the constructor
            ssl_minimum_version=self.ssl_minimum_version,
            ssl_maximum_version=self.ssl_maximum_version,
        )
        if not (self.ca_certs or self.ca_cert_dir or self.ca_cert_data):
            context.load_default_certs()
        self.ssl_context = close_unfinished(context)
        super().connect()


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = TlsConnection


def close_failed_connections(manager: urllib3.PoolManager) -> None:
    """Let `manager` use such connections, unless it is one of a SOCKS proxy, which has connections of another kind."""
    if type(manager) in {urllib3.PoolManager, urllib3.ProxyManager}:
        manager.pool_classes_by_scheme = {**manager.pool_classes_by_scheme, "https": _TlsPool}
