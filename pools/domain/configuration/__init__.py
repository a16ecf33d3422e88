"""The configuration of pools, cohorts and backends."""
