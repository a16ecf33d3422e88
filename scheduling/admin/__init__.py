"""The pages of work in the browser; importing them registers them."""

from scheduling.admin import config, schedules, workflows

__all__ = ["config", "schedules", "workflows"]
