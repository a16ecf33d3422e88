"""Changes of pools, subpools, cohorts and backends."""
