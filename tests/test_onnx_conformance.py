"""Every conformance vector the ONNX project publishes for its Attention operator, run through this library.

The vectors come with the ``onnx`` package: masks of both kinds, grouped heads, caches, padding, windows,
softcap, rows that see nothing, poisoned values, float16 and bfloat16, each with its own tolerance.
"""

import importlib
from unittest import mock

import numpy as np
import onnx
import pytest
from onnx.backend.test.case import node as onnx_cases

from mha_lib.attention import STEPS, Setting, attention, merge_heads, split_heads
from mha_lib.masks import causal, padding, window

pytestmark = pytest.mark.filterwarnings("error")


def collect():
    """The cases of Attention itself; the "expanded" ones test the same numbers through other operators."""
    # Collecting imports, and so computes, the cases of every operator: seconds, and warnings that are not
    # ours. Those of Attention all live in one module.
    importlib.import_module("onnx.backend.test.case.node.attention")
    with mock.patch.object(onnx_cases, "import_recursive"):
        cases = onnx_cases.collect_testcases("Attention")
    return [case for case in cases if case.model.graph.node[0].op_type == "Attention" and "expanded" not in case.name]


CASES = collect()


def onnx_attention(
    Q, K, V, attn_mask=None, past_key=None, past_value=None, nonpad_kv_seqlen=None, *,
    is_causal=0, left_window_size=-1, right_window_size=-1, scale=None, softcap=0.0,
    q_num_heads=None, kv_num_heads=None, qk_matmul_output_mode=0, softmax_precision=None,
):  # fmt: skip
    """ONNX's operator by the means of this library: Y, present_key, present_value, qk_matmul_output.

    ``softmax_precision`` only ever asks for float32 or more, which is what the library computes in.
    """
    merged = Q.ndim == 3
    if merged:
        Q, K, V = split_heads(Q, q_num_heads), split_heads(K, kv_num_heads), split_heads(V, kv_num_heads)
    past = 0
    if past_key is not None:
        past = past_key.shape[2]
        K, V = np.concatenate([past_key, K], axis=2), np.concatenate([past_value, V], axis=2)
    (_, H, t_q, d_k), t_k = Q.shape, K.shape[2]

    # Queries stand behind the past, or at the end of the real keys of their sample.
    offset = past if nonpad_kv_seqlen is None else nonpad_kv_seqlen - t_q
    left, right = (None if side == -1 else side for side in (left_window_size, right_window_size))
    keep = window(t_q, t_k, left, right, offset=offset)
    if is_causal:
        keep = keep & causal(t_q, t_k, offset=offset)
    if nonpad_kv_seqlen is not None:
        keep = keep & padding(nonpad_kv_seqlen, t_k)

    bias = None
    if attn_mask is not None:
        # ONNX broadcasts as NumPy does, and blocks the keys a short mask does not reach.
        attn_mask = attn_mask.reshape((1,) * (4 - attn_mask.ndim) + attn_mask.shape)
        missing = [(0, 0)] * 3 + [(0, t_k - attn_mask.shape[3])]
        if attn_mask.dtype == bool:
            keep = keep & np.pad(attn_mask, missing, constant_values=False)
        else:
            bias = np.pad(attn_mask, missing, constant_values=-np.inf)

    softcap = softcap or None
    Y, weights = attention(Q, K, V, mask=keep, bias=bias, scale=scale, softcap=softcap, return_weights=True)

    # The middle steps one by one: 0 is the scaled scores, 1 after the softcap, 2 after bias and mask, 3 weights.
    keep = keep if keep.ndim == 4 else keep[None, None]
    setting = Setting(H, d_k, t_q, t_k, d_k**-0.5 if scale is None else scale, keep, bias, softcap)
    scaled = STEPS.scale(STEPS.score(Q, K), setting)
    qk = (scaled, scaled, STEPS.mask(scaled, setting), weights)[qk_matmul_output_mode]
    return merge_heads(Y) if merged else Y, K, V, qk.astype(Q.dtype)


def widened(array):
    """bfloat16, which NumPy does not have, as float32; every other array as it is."""
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def test_no_vector_is_missing():
    assert len(CASES) >= 93
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.removeprefix("test_attention_"))
def test_vector(case):
    (node,), ((inputs, expected),) = case.model.graph.node, case.data_sets
    names = [name for name in node.input if name]
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    results = onnx_attention(**dict(zip(names, map(widened, inputs), strict=True)), **attributes)
    results = [result for result, name in zip(results, node.output, strict=False) if name]
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        rtol, atol = case.rtol, case.atol
        if wanted.dtype.name == "bfloat16":
            # The reference rounds every intermediate to 8 bits, we none: two steps of the last bit lie between.
            rtol = 2**-6
        else:
            assert result.dtype == wanted.dtype
        np.testing.assert_allclose(result, widened(wanted), rtol=rtol, atol=atol)
