"""One reader for each form of a history: lines in, ended jobs out, and what was left out with its lines."""
