"""Kernels for the tests of kernels: compiled by the first worker, loaded by the others and by the next run."""

from collections.abc import Iterator

import pytest

from clearhead.decoding.steppers.kernels import ready
from clearhead.storage import locked


@pytest.fixture(scope="module")
def kernels(pytestconfig: pytest.Config) -> Iterator[None]:
    """Kernels that are loaded; their machine code is kept in pytest's own cache, as compiling takes half a minute."""
    assert pytestconfig.cache is not None
    folder = pytestconfig.cache.mkdir("kernels")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CLEARHEAD_KERNELS")
        patch.setenv("CLEARHEAD_CACHE", str(folder))
        with locked(folder / "lock"):
            assert ready.prepare()
        yield
