"""Tokenizer files of others enter, tokenizers of ours leave, and the reverse."""
