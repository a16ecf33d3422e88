"""What the server gets from granian, for tests without a socket."""

from __future__ import annotations


class Headers(dict[str, str]):
    """The headers of a request, by names in lower case."""

    def get_all(self, name: str) -> list[str]:
        """All values of a name."""
        return [self[name]] if name in self else []
