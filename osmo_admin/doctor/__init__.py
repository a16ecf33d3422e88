"""What each process of the installation can reach: the checks, the reports of the processes, and what follows."""
