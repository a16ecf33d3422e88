"""The reader of Slurm's files: lines, nodes, accounts."""
