"""A server with the compiled step: it is loaded before the first request, and numbers stay those of the model."""

from pathlib import Path
from typing import Any

import pytest

from clearhead.api import Model
from clearhead.config.serving import ServingConfig
from clearhead.decoding.live.engine import LiveEngine
from clearhead.decoding.live.prefixes import Prefixes
from clearhead.decoding.steppers.switching import SwitchingStepper, stepper_of
from clearhead.serving.server.process import open_service
from tests.decoding.live.test_live_engine import CHUNK, END, again, run, some_requests
from tests.decoding.steppers.conftest import kernels as kernels
from tests.decoding.tiny import assert_same_or_tied, language_model, translator

pytestmark = pytest.mark.usefixtures("kernels")


@pytest.mark.parametrize("deterministic", [False, True])
def test_it_is_loaded_when_the_server_starts(tmp_path: Path, deterministic: bool) -> None:
    """So that memory does not grow under load; a deterministic server keeps the bits of PyTorch."""
    Model(language_model()).save(tmp_path / "mine")
    service = open_service([str(tmp_path / "mine")], ServingConfig(deterministic=deterministic))
    stepper = service.models["mine"].engines[0].model
    assert isinstance(stepper, SwitchingStepper) != deterministic
    assert not isinstance(stepper, SwitchingStepper) or stepper.compiled is not None


@pytest.mark.parametrize("name", ["language model", "translator"])
def test_requests_side_by_side_are_those_of_the_model(name: str) -> None:
    bundle = language_model() if name == "language model" else translator()
    stepper: Any = stepper_of(bundle.module, "fixed")
    stepper.prepare()
    assert stepper.compiled is not None
    texts = some_requests(bundle, 7)
    run(LiveEngine(stepper, [END], 48, 4, prefixes=Prefixes(CHUNK)), texts)
    for text in texts:
        alone = again(text)
        run(LiveEngine(stepper_of(bundle.module, "as they are"), [END], 48, 1), [alone])
        assert_same_or_tied(bundle, text.prompt, text.ids, alone.ids, text.source)
