"""Programs that the supervisor starts and stops."""
