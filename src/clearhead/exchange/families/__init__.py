"""Hugging Face architectures as settings of our model: a config.json enters, a `ModelConfig` leaves, and back."""
