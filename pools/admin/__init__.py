"""The pages of pools, quotas, users and clusters; importing this package registers them."""

from pools.admin import audit, backends, cohorts, gpu_quota, pools, tokens, users

__all__ = ["audit", "backends", "cohorts", "gpu_quota", "pools", "tokens", "users"]
