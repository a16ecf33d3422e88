"""Tables of observed clusters: their work, and the decisions of their schedulers that ours would not have made."""
