"""The scheduling engine: facts in, steps and reasons out.

It plans for simulated backends, answers what-if questions and explains why work waits.

`facts` holds the input, `world` the input as an indexed state that changes, `cycle` the passes, `outcome` the results.
"""
