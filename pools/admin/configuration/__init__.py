"""Pages of pools, subpools, cohorts, backends and GPU quotas."""
