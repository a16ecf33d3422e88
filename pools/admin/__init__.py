"""The ledger's pages in the browser; importing them registers them."""

from pools.admin import audit, backends, cohorts, gpu_quota, pools, tokens, users

__all__ = ["audit", "backends", "cohorts", "gpu_quota", "pools", "tokens", "users"]
