"""Sites cost nothing when nobody listens, and hear only their own thread."""

import threading

import torch
from torch import Tensor, nn

from clearhead.layers.sites import is_watched, listener, listening, site, site_names
from tests.layers.parts import N, make_attention, some, square


class Ear:
    """Listens to all sites and adds one to what passes."""

    rows = None

    def watches(self, module: nn.Module, key: str) -> bool:
        return key == "weights"

    def keep(self, module: nn.Module, key: str, X: Tensor) -> None:
        raise AssertionError("nothing here passes a site in parts")

    def hear(self, module: nn.Module, key: str, X: Tensor) -> Tensor:
        return X + 1


MODULE, X = nn.Identity(), torch.zeros(2)


def test_without_a_listener_a_tensor_passes_as_it_is() -> None:
    assert site(MODULE, "weights", X) is X
    assert not is_watched(MODULE, "weights")
    assert listener() is None


def test_a_listener_hears_and_may_change() -> None:
    with listening(Ear()):
        assert torch.equal(site(MODULE, "q", X), X + 1)
        assert is_watched(MODULE, "scores", "weights")
        assert not is_watched(MODULE, "scores")
    assert site(MODULE, "q", X) is X


def test_an_error_inside_leaves_nobody_listening() -> None:
    try:
        with listening(Ear()):
            raise ValueError
    except ValueError:
        pass
    assert listener() is None


def test_another_thread_is_not_heard() -> None:
    heard = []
    with listening(Ear()):
        thread = threading.Thread(target=lambda: heard.append(site(MODULE, "q", X)))
        thread.start()
        thread.join()
    assert heard[0] is X


def test_names_are_paths() -> None:
    model = nn.ModuleDict({"decoder": nn.ModuleDict({"blocks": nn.ModuleList([make_attention()])})})
    assert list(site_names(model)) == [
        f"decoder.0.{key}" for key in ("q", "k", "v", "scores", "weights", "heads", "out")
    ]
    attention = make_attention(d_memory=10)
    K, V = attention.keys_values(some(1, N, 10))
    assert attention(some(1, N, 10), K, V, square(N)).shape == (1, N, 10)
