"""The transformer: a `ModelConfig` becomes a decoder, an encoder or a translator; `Inputs` enter it, logits leave."""
