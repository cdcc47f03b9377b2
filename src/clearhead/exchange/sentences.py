"""Sentence vectors as sentence-transformers describes them: which tokens are pooled, and to what length.

`modules.json` lists the steps from text to vector. A transformer, one pooling and a normalisation are settings
here (`pool`, `unit_length`); whatever else stands there would change the vectors and is refused.
"""

from pathlib import PurePosixPath
from typing import Any, get_args

from clearhead.config.model import ModelConfig, Pool
from clearhead.errors import ConfigError
from clearhead.exchange.folder import Folder

MODULES, POOLING = "modules.json", "1_Pooling"
OWNER = "sentence_transformers."
POOLS: dict[str, Pool] = {
    "pooling_mode_cls_token": "first",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_lasttoken": "last",
}
MODES: dict[str, Pool] = {"cls": "first", "mean": "mean", "lasttoken": "last"}  # where one word says it


def sentence_settings(folder: Folder) -> dict[str, Any]:
    """`pool` and `unit_length` of a folder that makes sentence vectors; nothing for any other folder."""
    modules = folder.json(MODULES)
    if modules is None:
        return {}
    kinds = [kind_of(module) for module in modules] if isinstance(modules, list) else []
    names = [name for name, _ in kinds]
    if names[:2] != ["Transformer", "Pooling"] or names[2:] not in ([], ["Normalize"]):
        raise ConfigError(
            f"{folder.path / MODULES} goes through {', '.join(names) or 'nothing'}.\n"
            "Only Transformer, Pooling and then Normalize or nothing can be read; for the transformer alone, "
            "delete that file."
        )
    if kinds[0][1]:
        raise ConfigError(
            f"{folder.path / MODULES}: the transformer stands in {kinds[0][1]}.\nImport that folder."
        )
    pooling = folder.table(str(PurePosixPath(kinds[1][1]) / "config.json"))
    return {"pool": pool_of(pooling), "unit_length": "Normalize" in names}


def kind_of(module: Any) -> tuple[str, str]:
    """The class of a module without its package, and its folder."""
    kind = module.get("type") if isinstance(module, dict) else None
    path = module.get("path", "") if isinstance(module, dict) else ""
    if not isinstance(kind, str) or not kind.startswith(OWNER):
        raise ConfigError(
            f"{MODULES}: the module {kind!r} is code of its own.\nSuch code is not run here; only modules of "
            "sentence-transformers are known."
        )
    if not isinstance(path, str) or ".." in path or path.startswith("/") or {"\\", "\0"} & set(path):
        raise ConfigError(f"{MODULES}: {path!r} is not a folder of the model.")
    return kind.rpartition(".")[2], path


def pool_of(pooling: dict[str, Any]) -> Pool:
    """Our name of a pooling."""
    mode = pooling.get("pooling_mode")
    wanted = [key for key, value in pooling.items() if key.startswith("pooling_mode_") and value is True]
    if isinstance(mode, str) and mode in MODES:
        return MODES[mode]
    if mode is None and len(wanted) == 1 and wanted[0] in POOLS:
        return POOLS[wanted[0]]
    raise ConfigError(
        f"The pooling {mode or ', '.join(wanted) or 'of no mode'} has no counterpart here.\n"
        f"Known: {', '.join(POOLS)}."
    )


def sentence_files(config: ModelConfig) -> dict[str, Any]:
    """The files, by their names, that tell sentence-transformers how vectors are made."""
    steps = ["Transformer", "Pooling", *(["Normalize"] if config.unit_length else [])]
    paths = {"Transformer": "", "Pooling": POOLING, "Normalize": "2_Normalize"}
    modules = [
        {"idx": i, "name": str(i), "path": paths[step], "type": f"{OWNER}models.{step}"}
        for i, step in enumerate(steps)
    ]
    assert set(POOLS.values()) == set(get_args(Pool))
    pooling = {"word_embedding_dimension": config.width_top}
    pooling |= {key: kind == config.pool for key, kind in POOLS.items()}
    return {MODULES: modules, f"{POOLING}/config.json": pooling}
