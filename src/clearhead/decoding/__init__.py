"""A model and texts enter; written texts, classes or vectors leave.

generate       prompts -> texts, and sources -> translations: the whole way from text to text
sampling       which token comes next; search: beam search; stopping: when a text is done
engine         many texts at once, which join and leave; lines: files of any size, line by line
read           texts -> classes or vectors; spans: what labels of words mark
chat           conversations that grow
own_texts      a language model -> texts of its own, and int8 weights that are rounded for them
live/          the same for many people at any time, as the server needs it
steppers/      the same logits sooner: compiled in float32 and int8
"""
