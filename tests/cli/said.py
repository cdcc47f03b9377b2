"""What a command says on standard error, besides what it is doing."""


def without_stages(text: str) -> str:
    """The text without the lines that only say what is being done, such as "Loading PyTorch ..."."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.endswith(" ...\n"))
