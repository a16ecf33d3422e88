"""The checks of what each process of the installation can reach, their reports, and the conclusions from them."""
