"""A pruned model for programs that want as many heads in every block: zeros take the place of what was removed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from clearhead import model_folder
from clearhead.models.transformer.pruned import padded


@contextmanager
def padded_folder(folder: Path) -> Iterator[Path]:
    """The model folder to export: the given one, or one at its former size if it is pruned."""
    config = model_folder.read_config(model_folder.find(folder))
    if not (getattr(config, "kept_heads", None) or getattr(config, "kept_units", None)):
        yield folder
        return
    with TemporaryDirectory() as place:
        bundle = model_folder.load(folder)
        model_folder.save(Path(place) / "padded", replace(bundle, module=padded(bundle.module)))
        yield Path(place) / "padded"
