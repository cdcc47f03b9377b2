"""Numbers enter at their addresses, numbers leave: the parts of a decode step in machine code, by Numba.

pointers     how functions are compiled, and arrays at addresses
team         threads that work on one step together
tiles        parts of products that stay in registers; products: whole ones, by float32 and int8 matrices
arithmetic   norms, activations, attention
step         all of them for some tokens of each text, and the writing of the cache
choice       the best few tokens, and their log-probabilities
ready        whether they can run here; compile: how they are compiled
"""
