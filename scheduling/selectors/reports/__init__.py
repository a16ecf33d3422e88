"""Reads of earlier times: comparisons, waits of before, and the bars of a replay."""
