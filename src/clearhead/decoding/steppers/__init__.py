"""A model enters; a stepper leaves, which has the model's `start` and `step` and gives the same logits sooner.

switching    the model's own step first, and the compiled one when it has paid
compiled     tokens through kernels/, in float32 or int8: the weights as a table of addresses
kernels/     the arithmetic in machine code
"""
