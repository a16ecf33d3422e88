"""Admission webhooks of a cluster: their installation, their reviews, and the policy of the queues."""
