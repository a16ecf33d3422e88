"""Forecasts, replays and advice."""
