"""The pages of work in the browser; importing them registers them."""

from scheduling.admin import config, decisions, guard, queue_sync, schedules, workflows

__all__ = ["config", "decisions", "guard", "queue_sync", "schedules", "workflows"]
