"""Work along time, as pages draw it."""
