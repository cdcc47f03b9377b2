"""A model enters; a stepper leaves, which has the model's `start` and `step` and gives the same logits sooner.

switching    the model's own step first, and the compiled one when it has paid
compiled     tokens through kernels/, in float32 or int8, and which models have that
encoding     the sources of a translator through kernels/
table        the weights of a stack as the kernels read them
kernels/     the arithmetic in machine code
"""
