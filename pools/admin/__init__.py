"""The ledger's pages in the browser; importing them registers them."""

from pools.admin import audit, backends, cohorts, pool, tokens, users

__all__ = ["audit", "backends", "cohorts", "pool", "tokens", "users"]
