"""Numbers enter at their addresses, numbers leave: the parts of a decode step in machine code, by Numba.

arithmetic   products by float32 and int8 matrices, norms, activations, attention
step         all of them for one token of each row, and the writing of the cache
ready        whether they can run here; compile: how they are compiled
"""
