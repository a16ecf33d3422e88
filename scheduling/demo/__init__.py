"""The demo: a month of two clusters, made beforehand by the engine itself and loaded at the first start."""
