"""A mkdocs hook: the translator of the package enters, the explorer as one file leaves, which the first page embeds."""

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import clearhead

PAGE = "explorer-page.html"
SENTENCE = "The chicken didn't cross the road because it was too tired."


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the explorer's page on one sentence."""
    figure = clearhead.load("builtin:translator").explore(SENTENCE)
    files.append(File.generated(config, PAGE, content=figure.frame))
    return files
