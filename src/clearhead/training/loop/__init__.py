"""The training loop: settings, prepared data and a model enter; records leave, and the model is trained.

trainer.py       the loop and one step of it: forward, loss, backward, clip, optimizer
losses.py        logits and a batch become a loss
optimizers.py    gradients become changes of the weights: Muon, AdamW
schedules.py     the learning rate of each step
averages.py      averages of the weights over training
adapters.py      which weights are trained; LoRA
validation.py    the loss on held-out data during training
records.py       what the loop reports
device.py        on which device, in which precision, compiled or not
threads.py       parts of a batch on threads of our own, whose number alone decides the bits
load.py          how busy the machine is with other programs
"""
