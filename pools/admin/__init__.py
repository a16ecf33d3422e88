"""The ledger's pages in the browser; importing them registers them."""

from pools.admin import audit, backends, pool, tokens, users

__all__ = ["audit", "backends", "pool", "tokens", "users"]
