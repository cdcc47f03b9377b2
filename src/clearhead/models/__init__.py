"""A config enters, a model leaves; `Inputs` enter a model, logits leave. Each family has a room or a file."""
