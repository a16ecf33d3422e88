"""Replays from files: traces (CSV and the Standard Workload Format), the cluster of a scenario file, and the answer.

No server and no database: `osmo replay` runs it alone.
"""
