"""Training on several devices: the processes of `torchrun` become ranks that train one model with the same steps.

ranks.py          who this process is; connecting, broadcasting, taking turns
collectives.py    sums, gathers and sharded tensors
parallel.py       a model on one rank, copied to each (DDP) or sharded over all (FSDP2)
"""
