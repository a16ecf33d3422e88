"""Changes of GPU quotas and their allocations."""
