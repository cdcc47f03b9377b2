"""A model enters; a stepper leaves, which has the model's `start` and `step` and gives the same logits sooner.

direct       one token through all blocks without PyTorch's modules, and when which of the two below takes over
compiled     one token through kernels/, in float32 or int8: the weights as a table of addresses
products     products of a few rows with a weight
kernels/     the arithmetic in machine code
"""
