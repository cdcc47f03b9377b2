"""The models of the package, which `make shipped` makes: `builtin:NAME` enters; the path of a model folder leaves."""

from pathlib import Path

from clearhead.errors import ModelFolderError, suggest

BUILTIN, SHIPPED = "builtin:", Path(__file__).parent


def of_the_package(folder: Path) -> Path:
    """The folder of a model of the package, if it is named; any other folder as it is."""
    if not (name := str(folder)).startswith(BUILTIN):
        return folder
    known = {f"{BUILTIN}{place.parent.name}": place.parent for place in sorted(SHIPPED.glob("*/config.json"))}
    if name not in known:
        raise ModelFolderError(f"{name} is not a model of the package. {suggest(name, known)}")
    return known[name]
