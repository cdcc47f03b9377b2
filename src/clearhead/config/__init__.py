"""Every setting of a run: its name, type, default, meaning and checks; nothing here imports PyTorch."""

from clearhead.config.data import DataConfig
from clearhead.config.model import ModelConfig
from clearhead.config.run import RunConfig
from clearhead.config.settings import Settings
from clearhead.config.tokenizer import TokenizerConfig

__all__ = ["DataConfig", "ModelConfig", "RunConfig", "Settings", "TokenizerConfig"]
