"""Against the frameworks themselves: onnxruntime's kernel, and torch where it is installed.

Each comparison runs the framework and compares numbers; masks are handed over in the polarity each
framework wants, which is half of the lesson.
"""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from mha_lib.attention import MultiHead, attention
from mha_lib.masks import causal, padding

close = np.testing.assert_allclose
TOLERANCE = {np.float32: {"rtol": 1e-4, "atol": 2e-6}, np.float64: {"rtol": 1e-11, "atol": 1e-13}}
both_types = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def heads(H=6, H_kv=6, T_q=5, T_k=7, d_k=4, d_v=4, dtype=np.float32):
    """q, k, v of sizes that are all distinct where the framework allows it."""
    shapes = (2, H, T_q, d_k), (2, H_kv, T_k, d_k), (2, H_kv, T_k, d_v)
    return [normal(*shape, seed=seed, dtype=dtype) for seed, shape in enumerate(shapes)]


KEEP = np.random.default_rng(3).random((2, 6, 5, 7)) < 0.6
KEEP[..., 0] = True  # no empty rows: on those the frameworks disagree with each other

# ---- onnxruntime ------------------------------------------------------------------------------


def onnxruntime_attention(q, k, v, attn_mask=None, past=None, **attributes):
    """Y of onnxruntime's own Attention kernel (opset 23), for one model built on the spot."""
    inputs = {"Q": q, "K": k, "V": v, "attn_mask": attn_mask}
    inputs |= dict(zip(("past_key", "past_value"), past or (None, None), strict=True))
    inputs = {name: array for name, array in inputs.items() if array is not None}
    names = [name if name in inputs else "" for name in ("Q", "K", "V", "attn_mask", "past_key", "past_value")]
    outputs = ["Y", "present_key", "present_value"] if past else ["Y"]
    graph = helper.make_graph(
        [helper.make_node("Attention", names, outputs, **attributes)],
        "attention",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in inputs.items()
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
    )
    # An IR version that every onnxruntime with this operator reads.
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(["Y"], inputs)[0]


@pytest.mark.parametrize(
    "sizes, ours, theirs",
    [
        ({}, {}, {}),
        ({"d_v": 3}, {}, {}),
        ({"H_kv": 2, "d_v": 3}, {}, {}),
        ({"H_kv": 1}, {}, {}),
        ({}, {"scale": 0.3}, {"scale": 0.3}),
        ({}, {"mask": KEEP}, {"attn_mask": KEEP}),
        ({"H_kv": 3}, {"mask": KEEP[0, 0]}, {"attn_mask": KEEP[0, 0]}),
        ({}, {"bias": normal(2, 1, 5, 7)}, {"attn_mask": normal(2, 1, 5, 7)}),
        ({"T_k": 5}, {"mask": causal(5)}, {"is_causal": 1}),
        # Without a past, ONNX puts the first query at the first key.
        ({"H_kv": 2}, {"mask": causal(5, 7, offset=0)}, {"is_causal": 1}),
        ({}, {"softcap": 0.8}, {"softcap": 0.8}),
        # No mask here: onnxruntime 1.23 still squeezes after it masks, and so lets masked keys through.
        ({"H_kv": 2, "d_v": 3}, {"softcap": 0.8, "scale": 0.9}, {"softcap": 0.8, "scale": 0.9}),
    ],
)
def test_attention_equals_the_kernel_of_onnxruntime(sizes, ours, theirs):
    q, k, v = heads(**sizes)
    close(attention(q, k, v, **ours), onnxruntime_attention(q, k, v, **theirs), **TOLERANCE[np.float32])


@pytest.mark.parametrize("H_kv", [6, 2])
def test_causal_attention_behind_a_cache_equals_the_kernel_of_onnxruntime(H_kv):
    q, k, v = heads(H_kv=H_kv, T_k=8, d_v=3)
    past, new = (k[:, :, :3], v[:, :, :3]), (k[:, :, 3:], v[:, :, 3:])
    theirs = onnxruntime_attention(q, *new, past=past, is_causal=1)
    close(attention(q, k, v, mask=causal(5, 8)), theirs, **TOLERANCE[np.float32])


def test_the_layer_equals_onnxruntime_on_merged_heads():
    # ONNX takes the three projections with heads side by side; the identity as w_o leaves them there.
    layer = MultiHead.random(12, 3, np.random.default_rng(0), dtype=np.float32)
    trace = layer.trace(normal(2, 5, 12), mask=causal(5))
    theirs = onnxruntime_attention(trace["q"], trace["k"], trace["v"], is_causal=1, q_num_heads=3, kv_num_heads=3)
    close(trace["merged"], theirs, **TOLERANCE[np.float32])


# ---- torch: scaled_dot_product_attention ------------------------------------------------------


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="torch is not installed, so nothing is compared with it")


def sdpa(torch, q, k, v, attn_mask=None, **options):
    q, k, v = (torch.from_numpy(array) for array in (q, k, v))
    attn_mask = None if attn_mask is None else torch.from_numpy(attn_mask)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask, **options).numpy()


@both_types
@pytest.mark.parametrize(
    "sizes, ours, theirs",
    [
        ({"d_v": 3}, {}, {}),
        ({}, {"scale": 0.3}, {"scale": 0.3}),
        ({"d_v": 3}, {"mask": KEEP}, {"attn_mask": KEEP}),  # True = keep, as here
        ({}, {"mask": KEEP[:1, :, :1]}, {"attn_mask": KEEP[:1, :, :1]}),
        ({}, {"mask": padding([7, 4], 7)}, {"attn_mask": padding([7, 4], 7)}),
        ({"T_k": 5}, {"mask": causal(5)}, {"is_causal": True}),
        # Where queries and keys differ in number, torch puts the first query at the first key.
        ({}, {"mask": causal(5, 7, offset=0)}, {"is_causal": True}),
        ({"H_kv": 2}, {}, {"enable_gqa": True}),
        ({"H_kv": 2, "d_v": 3}, {"mask": KEEP, "scale": 0.9}, {"attn_mask": KEEP, "scale": 0.9, "enable_gqa": True}),
    ],
)
def test_attention_equals_torch(torch, dtype, sizes, ours, theirs):
    q, k, v = heads(**sizes, dtype=dtype)
    close(attention(q, k, v, **ours), sdpa(torch, q, k, v, **theirs), **TOLERANCE[dtype])


@both_types
def test_a_bias_equals_the_float_mask_of_torch(torch, dtype):
    q, k, v = heads(dtype=dtype)
    bias = np.where(KEEP, normal(2, 6, 5, 7, seed=9), -np.inf).astype(dtype)
    close(attention(q, k, v, bias=bias), sdpa(torch, q, k, v, attn_mask=bias), **TOLERANCE[dtype])


# ---- torch: nn.MultiheadAttention -------------------------------------------------------------


def twin(torch, layer):
    """A torch.nn.MultiheadAttention with the weights of ``layer``: torch keeps them transposed, (out, in)."""
    d_model, d_context = layer.w_q.shape[0], layer.w_k.shape[0]
    module = torch.nn.MultiheadAttention(
        d_model, layer.n_heads, bias=layer.b_q is not None, kdim=d_context, vdim=d_context, batch_first=True
    ).to(torch.from_numpy(layer.w_q).dtype)
    put = lambda parameter, array: parameter.data.copy_(torch.from_numpy(array))  # noqa: E731 - one word for one line
    if module.in_proj_weight is None:  # three weights where the context has a width of its own
        for name in "qkv":
            put(getattr(module, f"{name}_proj_weight"), getattr(layer, f"w_{name}").T.copy())
    else:
        put(module.in_proj_weight, np.concatenate([layer.w_q, layer.w_k, layer.w_v], axis=1).T.copy())
    put(module.out_proj.weight, layer.w_o.T.copy())
    if layer.b_q is not None:
        put(module.in_proj_bias, np.concatenate([layer.b_q, layer.b_k, layer.b_v]))
        put(module.out_proj.bias, layer.b_o)
    return module.eval()


@both_types
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("d_context", [None, 12, 10])
@pytest.mark.parametrize("masked", ["not masked", "padding", "attn_mask", "both"])
def test_the_layer_equals_torch(torch, dtype, bias, d_context, masked):
    layer = MultiHead.random(12, 3, np.random.default_rng(0), d_context=d_context, bias=bias, dtype=dtype)
    x = normal(2, 5, 12, dtype=dtype)
    context = None if d_context is None else normal(2, 7, d_context, dtype=dtype)
    source = x if context is None else context
    t_k = source.shape[1]
    keep, options = np.ones((2, 1, 5, t_k), bool), {}
    # Both of torch's masks here say True = block, the opposite of its scaled_dot_product_attention.
    if masked in ("padding", "both"):
        keep = keep & padding([t_k, 3], t_k)
        options["key_padding_mask"] = torch.from_numpy(~padding([t_k, 3], t_k)[:, 0, 0])
    if masked in ("attn_mask", "both"):
        keep = keep & KEEP[0, 0, :, :t_k]
        options["attn_mask"] = torch.from_numpy(~KEEP[0, 0, :, :t_k])
    with torch.no_grad():
        arrays = (torch.from_numpy(array) for array in (x, source, source))
        output, weights = twin(torch, layer)(*arrays, average_attn_weights=False, **options)
    trace = layer.trace(x, context, mask=keep)
    assert trace["weights"].dtype == dtype and trace["weights"].shape == weights.shape == (2, 3, 5, t_k)
    close(trace["weights"], weights.numpy(), **TOLERANCE[dtype])
    close(trace["output"], output.numpy(), **TOLERANCE[dtype])
