"""Texts that many people ask for at any time: requests enter from other threads, pieces of texts leave as they come.

worker     the decode thread: a step of every engine and of every other piece of work, in turn
engine     texts join and leave at any step, long prompts are read in chunks, an error ends one text only
search     beam searches that join and leave at any step
translations   the sentences of a request, written or searched
request    one text that somebody waits for
prefixes   what is known of the beginnings of earlier prompts
lookup     guesses the next tokens from the text itself
grammar    keeps a text to a JSON schema, which `schema_trial` tries first
"""
