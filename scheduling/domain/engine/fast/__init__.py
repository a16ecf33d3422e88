"""What only gives the answers of the rules sooner.

Every step is the same without it. `shortcuts` has all its pieces; each of them can be left out."""
