"""How a device is set up when it is picked."""

import pytest
import torch

from vidlatents.device import pick


@pytest.fixture
def loose():
    """Torch's settings as a user may have left them; put back afterwards."""
    before = torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()
    torch.backends.cudnn.allow_tf32 = True
    torch.set_float32_matmul_precision("high")
    yield
    torch.backends.cudnn.allow_tf32 = before[0]
    torch.set_float32_matmul_precision(before[1])


@pytest.mark.parametrize("device", ["gpu", "auto"])
def test_on_a_gpu_neither_convolutions_nor_products_of_float32_are_computed_in_tf32(loose, monkeypatch, device):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert pick(device) == "cuda"
    assert (torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32, torch.get_float32_matmul_precision()) == (False, False, "highest")
