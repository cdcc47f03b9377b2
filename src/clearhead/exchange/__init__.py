"""Models from and for others: Hugging Face folders, GGUF files and the hub enter as model folders; folders leave.

importing    a source -> a model folder of ours
exporting    a model folder of ours -> a folder that `transformers` loads; exporting_gguf: a file for llama.cpp
reference    a source run as it is, for `clearhead check --against`
families/    which architectures are settings of our model: config.json, both ways
weights/     tensors by name: read, rename, write
tokenizers/  a source's tokenizer files -> `tokenizer.json`, and back
hf_folder    a Hugging Face folder on disk; hub: how one is downloaded

To add a Hugging Face family, add one row to `families/registry.py`: a function in `families/import_config.py`, its
inverse in `families/export_config.py`, and its weight names in `families/weight_names.py`. If its tokenizers come
without a `tokenizer.json`, add a row to `tokenizers/read_vocabulary.py`.
"""
