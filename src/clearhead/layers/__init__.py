"""The parts of a block: tensors enter and leave. Each axis of variation is one file with one table of kinds.

attention, similarity, masks, positions    who looks at whom, and how much
feedforward, norms, residual, dropout      what else a block does; blocks: all of it together
recurrence, convolution                    what came before attention
cache                                      the keys and values of earlier tokens; rows: states of the others
sites                                      where a tensor can be recorded or changed
"""
