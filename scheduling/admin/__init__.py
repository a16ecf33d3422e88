"""The pages of work in the browser; importing them registers them."""

from scheduling.admin import admission_webhooks, background_jobs, cluster_sync, decisions, scheduler_settings, workflows

__all__ = ["admission_webhooks", "background_jobs", "cluster_sync", "decisions", "scheduler_settings", "workflows"]
