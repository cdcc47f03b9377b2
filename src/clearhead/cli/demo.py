"""`clearhead demo`: the main job end to end, as far as it exists."""

import platform

from clearhead import __version__


def demo() -> None:
    """Show what works today on this machine."""
    import torch

    print(f"clearhead {__version__}, torch {torch.__version__}, Python {platform.python_version()}")
    print(f"{platform.machine()}, {torch.get_num_threads()} threads")
