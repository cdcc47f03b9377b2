"""A model enters; a stepper leaves, which has the model's `start` and `step` and gives the same logits sooner."""
