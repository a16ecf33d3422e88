"""Scheduling: workflows, the engine that decides which work starts, and the backends that run it."""
