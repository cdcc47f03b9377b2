"""A share of heads or units to keep, checked: by a command before PyTorch is loaded, and by functions."""

from clearhead.errors import InputError


def check_share(share: float, what: str) -> float:
    """A share above 0 and up to 1."""
    if not 0 < share <= 1:
        raise InputError(f"{what} {share:g} is not a share above 0 and up to 1.\nGive a number such as 0.6.")
    return share
