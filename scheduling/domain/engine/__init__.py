"""The one scheduling engine: facts in, steps and reasons out. It runs the simulated backend, answers what-if, explains.

`facts` what is given; `world` the same, indexed and changeable; `settle` the passes; `outcome` what may be asked after.
"""
