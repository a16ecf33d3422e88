"""Reads for forecasts, replays and what-if questions."""
