"""The way out: quotas as the objects of other schedulers, and what has no counterpart there."""
