"""Linear layers by oneDNN: outputs and gradients of PyTorch's own, in place of plain layers alone."""

import copy

import pytest
import torch

from agentgym.inference.models import linear
from agentgym.inference.models.linear import MIN_ROWS, Linear, matmul, use_onednn

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="PyTorch was built without oneDNN"),
]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(40, 12), (2, 50, 12), (3, 12)])
def test_outputs_and_gradients_are_those_of_pytorch(bias, shape):
    torch.manual_seed(0)
    plain = torch.nn.Linear(12, 20, bias=bias)
    changed = copy.deepcopy(plain)
    use_onednn(changed)
    assert type(changed) is Linear
    found = []
    for layer in (plain, copy.deepcopy(changed)):
        rows = torch.linspace(-1, 1, torch.Size(shape).numel()).view(shape).requires_grad_()
        output = layer(rows)
        output.square().sum().backward()
        found.append([output, rows.grad, *(weight.grad for weight in layer.parameters())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("size", [8, 300])
def test_products(transposed, size):
    one, other = torch.rand(100, size), torch.rand(size, 30)
    one = one.t().contiguous().t() if transposed else one
    torch.testing.assert_close(matmul(one, other), one @ other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("rows", "dtype", "calls"), [(MIN_ROWS, "float32", 1), (MIN_ROWS - 1, "float32", 0), (64, "bfloat16", 0)]
)
def test_onednn_computes_many_rows_in_float32(monkeypatch, rows, dtype, calls):
    layer = torch.nn.Linear(8, 8, dtype=getattr(torch, dtype))
    use_onednn(layer)
    seen = []
    product = linear._product
    monkeypatch.setattr(linear, "_product", lambda *given: seen.append(1) or product(*given))
    layer(torch.ones(rows, 8, dtype=layer.weight.dtype))
    assert len(seen) == calls


def test_other_layers_remain():
    class Own(torch.nn.Linear):
        pass

    model = torch.nn.Sequential(Own(2, 2), torch.nn.Linear(2, 2))
    use_onednn(model)
    assert [type(layer) for layer in model] == [Own, Linear]
