"""Endpoints of GPU quotas."""
