"""Recurrent models: a `RecurrentConfig` becomes a language model, an encoder or a translator of 2014."""
