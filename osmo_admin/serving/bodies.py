"""Reading a request body completely, within a time, a size and the memory that all bodies of the process share."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from granian.rsgi import ProtocolClosed

from osmo_admin.serving.refusals import RequestRefused
from pools.domain.errors import Fault

if TYPE_CHECKING:
    from granian.rsgi import HTTPProtocol, Scope

# A longer body is read in parts, so that only the bytes that have arrived count.
READ_AT_ONCE = 64 * 1024


@dataclass(slots=True)
class RequestBodies:
    """The limits of bodies, and the bytes of all bodies that are being read or whose request is not answered yet."""

    seconds: float
    limit: int
    memory: int
    held: int = 0

    async def read(self, scope: Scope, proto: HTTPProtocol) -> bytes:
        """The whole body; `release` gives its memory back. Raises RequestRefused."""
        length = self._declared_length(scope)
        try:
            async with asyncio.timeout(self.seconds):
                if 0 <= length <= READ_AT_ONCE:
                    body = bytes(await proto())
                    self.held += len(body)
                    return body
                return await self._read_parts(proto, length)
        except TimeoutError:
            message = f"The request's body did not arrive within {self.seconds:g} s. Send it without a pause."
            raise RequestRefused(408, Fault.BODY_TOO_SLOW, message, limit=round(self.seconds)) from None
        except ProtocolClosed:
            raise RequestRefused(400, Fault.BODY_INCOMPLETE, "The request's body is incomplete.") from None

    def release(self, body: bytes) -> None:
        """The request of this body has its answer."""
        self.held -= len(body)

    def _declared_length(self, scope: Scope) -> int:
        """The length that the client names; -1 for a body in chunks."""
        text = scope.headers.get("content-length")
        if text is None:
            return -1
        length = int(text)  # granian refuses anything but one number
        if length > self.limit:
            raise self._too_large(length)
        return length

    def _too_large(self, length: int) -> RequestRefused:
        message = f"The request's body is too large: {length:,} bytes. Send at most {self.limit:,} bytes."
        return RequestRefused(413, Fault.BODY_TOO_LARGE, message, requested=length, limit=self.limit)

    async def _read_parts(self, proto: HTTPProtocol, length: int) -> bytes:
        parts: list[bytes] = []
        total = ends = 0
        is_complete = False
        try:
            async for part in proto:
                # An empty part is the end; granian sends another one before it if the body broke off.
                ends += not part
                total += len(part)
                self.held += len(part)
                parts.append(part)
                if total > self.limit:
                    raise self._too_large(total)
                if self.held > self.memory:
                    message = "The server is reading too many large requests at once; try again."
                    raise RequestRefused(503, Fault.BODIES_FILL_MEMORY, message, limit=self.memory)
            if ends != 1 or (length >= 0 and total != length):
                raise RequestRefused(400, Fault.BODY_INCOMPLETE, "The request's body is incomplete.")
            is_complete = True
        finally:
            if not is_complete:
                self.held -= total
        return b"".join(parts)
