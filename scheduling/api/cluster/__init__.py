"""Endpoints of clusters, nodes and pools as scheduling sees them."""
