"""The quota tree: pure arithmetic of cohorts, pools, subpools and the shared queue."""
