"""Convolutional models: a `ConvolutionalConfig` becomes a causal language model, or an encoder."""
