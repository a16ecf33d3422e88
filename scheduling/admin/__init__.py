"""The pages of work in the browser; importing them registers them."""

from scheduling.admin import config, guard, schedules, workflows

__all__ = ["config", "guard", "schedules", "workflows"]
