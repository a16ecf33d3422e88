"""What pools can have of their quotas while a cluster has too few GPUs for all."""
