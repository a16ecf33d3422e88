"""Readers of objects of Kubernetes: Kueue, KAI, ResourceQuotas, and what they share."""
