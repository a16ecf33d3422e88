"""Kept findings, with which the rules come to the same steps sooner.

`shortcuts` puts the pieces together; each of them can be left out."""
