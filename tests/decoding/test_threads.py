"""What is decoded beside other programs has fewer threads, and gives them back."""

import pytest
import torch

from clearhead.decoding import threads


def test_what_is_inside_has_fewer_threads_and_what_follows_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads.FREE, "threads", lambda most: most - 3)
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        with threads.free_cores():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)
