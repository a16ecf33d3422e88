"""TLS connections that leave no open socket behind when they fail."""

from __future__ import annotations

import errno
import ssl


class _ClosedIfUnfinished(ssl.SSLSocket):
    """Python's class takes over the descriptor of a connection and then looks whether the other side has reset it. If
    so, Python 3.11 raises the error and leaves the descriptor to the garbage collector."""

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        try:
            return super().recv(buflen, flags)
        except OSError as error:
            is_looking = not hasattr(self, "_connected")  # set at the end of that look: no caller has this object yet
            if is_looking and error.errno not in _NOT_CONNECTED:
                self.close()
            raise


_NOT_CONNECTED = {errno.ENOTCONN, errno.EINVAL}
"""With these errors Python goes on: the socket was never connected, and its caller may connect it later."""


def close_unfinished(context: ssl.SSLContext) -> ssl.SSLContext:
    """Let every socket that `context` wraps be closed when the wrapping fails. Returns the context."""
    context.sslsocket_class = _ClosedIfUnfinished
    return context
