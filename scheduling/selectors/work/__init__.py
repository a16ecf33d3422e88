"""Reads of workflows, their tasks and events."""
