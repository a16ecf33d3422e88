"""What a change would mean for the work that is there."""
