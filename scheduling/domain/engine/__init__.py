"""The scheduling engine: facts in, steps and reasons out.

It plans for simulated backends, answers what-if questions and explains why work waits.

`facts` is the input. `state` holds it as records that change, with undo; `rules` decides what starts, moves and stops,
alone and complete; `fast` only gives the answers of the rules sooner; `reasons` explains why work waits. `cycle` runs
the passes once, `kept_state` over many instants, `outcome` reads the results.
"""
