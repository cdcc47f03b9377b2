"""How sentence-transformers makes a vector of a text: its files enter, our settings leave, and the reverse.

`modules.json` lists the steps from text to vector. A transformer, one pooling and a normalisation are settings here
(`pool`, `unit_length`); any other module would change the vectors and is refused.
"""

from pathlib import PurePosixPath
from typing import Any, get_args

from clearhead.config.model import ModelConfig
from clearhead.config.model_base import Pool
from clearhead.errors import ConfigError
from clearhead.exchange.hf_folder import HuggingFaceFolder

MODULES, POOLING = "modules.json", "1_Pooling"
OWNER = "sentence_transformers."
POOLS: dict[str, Pool] = {
    "pooling_mode_cls_token": "first",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "root",
    "pooling_mode_lasttoken": "last",
    "pooling_mode_max_tokens": "max",
}
MODES: dict[str, Pool] = {  # in newer files
    "cls": "first", "mean": "mean", "mean_sqrt_len_tokens": "root", "lasttoken": "last", "max": "max",
}  # fmt: skip


def read_pooling(folder: HuggingFaceFolder) -> dict[str, Any]:
    """`pool` and `unit_length` of a sentence-transformers folder; nothing for any other folder."""
    modules = folder.json(MODULES)
    if modules is None:
        return {}
    kinds = [module_kind(module) for module in modules] if isinstance(modules, list) else []
    names = [name for name, _ in kinds]
    if names[:2] != ["Transformer", "Pooling"] or names[2:] not in ([], ["Normalize"]):
        raise ConfigError(
            f"{folder.path / MODULES} lists the modules {', '.join(names) or 'none'}.\n"
            "Only Transformer, Pooling and an optional Normalize are supported; to import the transformer alone, "
            "delete that file."
        )
    if kinds[0][1]:
        raise ConfigError(
            f"{folder.path / MODULES}: the transformer is in {kinds[0][1]}.\nImport that folder."
        )
    pooling = folder.table(str(PurePosixPath(kinds[1][1]) / "config.json"))
    return {"pool": pool_of(pooling), "unit_length": "Normalize" in names}


def module_kind(module: Any) -> tuple[str, str]:
    """The class of a module without its package, and its folder."""
    kind = module.get("type") if isinstance(module, dict) else None
    path = module.get("path", "") if isinstance(module, dict) else ""
    if not isinstance(kind, str) or not kind.startswith(OWNER):
        raise ConfigError(
            f"{MODULES}: the module {kind!r} is custom code.\nclearhead does not run such code; only modules of "
            "sentence-transformers are supported."
        )
    if not isinstance(path, str) or ".." in path or path.startswith("/") or {"\\", "\0"} & set(path):
        raise ConfigError(f"{MODULES}: {path!r} is not a folder inside the model's folder.")
    return kind.rpartition(".")[2], path


def pool_of(pooling: dict[str, Any]) -> Pool:
    """Our name for a pooling."""
    mode = pooling.get("pooling_mode")
    wanted = [key for key, value in pooling.items() if key.startswith("pooling_mode_") and value is True]
    if isinstance(mode, str) and mode in MODES:
        return MODES[mode]
    if mode is None and len(wanted) == 1 and wanted[0] in POOLS:
        return POOLS[wanted[0]]
    raise ConfigError(
        f"The pooling {mode or ', '.join(wanted) or 'without a mode'} is unsupported.\n"
        f"Supported: {', '.join(POOLS)}."
    )


def pooling_files(config: ModelConfig) -> dict[str, Any]:
    """The files, by name, from which sentence-transformers knows how to pool."""
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
