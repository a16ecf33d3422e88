"""Endpoints of workflows and their tasks."""
