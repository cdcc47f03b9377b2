"""TOML, JSON or keywords enter; frozen, validated settings leave. Nothing here imports PyTorch.

run.py          the recipe: one table for each file below
tasks.py        one row per task
data.py, tokenizer.py, training.py, decoding.py    every setting: name, type, default, meaning, checks
model_base.py, model.py, recurrent.py, convolutional.py, families.py    the same of a model, by family
overrides.py    settings from the command line
effects.py      which of them a run uses
settings.py     what all tables have in common
"""

from clearhead.config.data import DataConfig
from clearhead.config.model import ModelConfig
from clearhead.config.run import RunConfig
from clearhead.config.settings import Settings
from clearhead.config.tokenizer import TokenizerConfig

__all__ = ["DataConfig", "ModelConfig", "RunConfig", "Settings", "TokenizerConfig"]
