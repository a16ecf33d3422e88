"""What only gives the answers of the rules sooner. Every step is the same without it."""
