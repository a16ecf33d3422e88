"""Following an observed cluster: its nodes, its work and the decisions of its own scheduler, without a write."""
