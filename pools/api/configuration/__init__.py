"""Endpoints of pools, subpools, cohorts, backends, and their history."""
