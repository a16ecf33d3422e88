"""Values as Slurm writes them, for every reader of its files: times, resources, numbers and states of jobs."""
