"""The catalogue of mistakes: each is one step of `Steps` swapped, or a small variation of the layer.

Every one of them was made by somebody in public; most of them train. A `Mistake` knows the
misconception behind it (the codes are the course's), how it looks from outside, who reported it, and
which of the checks in `mha_lib.checks` is the shortest that catches it. Whether it does is computed,
never believed: `mha_lib.checks.matrix` runs every mistake against every check.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .attention import STEPS, MultiHead, Setting, Steps, share_heads, softmax
from .masks import causal


@dataclass(frozen=True)
class Mistake:
    """One way to get attention wrong.

    Attributes
    ----------
    name : str
        What is done, in a few words.
    misconception : str
        The code of the belief behind it, M1 to M17.
    looks : str
        How it looks from outside, in one line.
    caught_by : str
        Name of the shortest check that catches it.
    seen_in : tuple of str
        Public reports, as owner/repository#number.
    steps : Steps
        The steps with the mistake in them.
    vary : function of MultiHead that returns MultiHead, optional
        For a mistake that is made in the weights and not in a step.
    """

    name: str
    misconception: str
    looks: str
    caught_by: str
    seen_in: tuple[str, ...] = ()
    steps: Steps = STEPS
    vary: Callable[[MultiHead], MultiHead] | None = None

    def run(self, layer: MultiHead, x, context=None, **options):
        """Run the layer with this mistake; parameters as for a call of the layer."""
        layer = layer if self.vary is None else self.vary(layer)
        return layer(x, context, steps=self.steps, **options)

    def trace(self, layer: MultiHead, x, context=None, **options):
        """Run the layer with this mistake and keep what every step made."""
        layer = layer if self.vary is None else self.vary(layer)
        return layer.trace(x, context, steps=self.steps, **options)


# ---------------------------------------------------------------------------------------------
# Steps that are wrong


def _scaled_by(factor: Callable[[Setting], float]) -> Steps:
    """Multiply the scores by something else than 1/√d_k; a softcap still applies."""
    return replace(STEPS, scale=lambda scores, setting: STEPS.scale(scores, replace(setting, scale=factor(setting))))


def _softmax_over(axis) -> Steps:
    return replace(STEPS, normalise=lambda scores, setting: softmax(scores, axis=axis))


def _masked_by(change: Callable[[np.ndarray, Setting, tuple], np.ndarray]) -> Steps:
    """Run the mask step with another mask; ``change(keep, setting, shape)`` makes it, keep being (B, H, T_q, T_k)."""

    def mask(scores, setting):
        if setting.keep is None:
            return STEPS.mask(scores, setting)
        keep = change(np.broadcast_to(setting.keep, scores.shape), setting, scores.shape)
        return STEPS.mask(scores, replace(setting, keep=keep))

    # The right normalise knows the right mask, and would say NaN where the wrong one blanks a whole row.
    return replace(STEPS, mask=mask, normalise=lambda scores, setting: softmax(scores, axis=-1))


def _split_by_reshape(x, n_heads):
    batch, tokens, width = x.shape
    return x.reshape(batch, n_heads, tokens, width // n_heads)


def _merge_by_reshape(x):
    batch, n_heads, tokens, width = x.shape
    return x.reshape(batch, tokens, n_heads * width)


def _heads_averaged(x):
    return np.concatenate([x.mean(axis=1)] * x.shape[1], axis=-1)


def _tiled(kv, n_heads):
    return np.concatenate([kv] * (n_heads // kv.shape[1]), axis=1)


def _bias_only(scores, setting):
    return STEPS.mask(scores, replace(setting, keep=None))


def _mask_after_softmax(scores, setting):
    weights = softmax(scores, axis=-1)
    return weights if setting.keep is None else np.where(setting.keep, weights, 0).astype(weights.dtype)


def _logit_zero(scores, setting):
    scores = _bias_only(scores, setting)
    return scores if setting.keep is None else np.where(setting.keep, scores, 0).astype(scores.dtype)


def _large_and_finite(scores, setting):
    scores = _bias_only(scores, setting)
    if setting.keep is None:
        return scores
    with np.errstate(over="ignore"):
        return scores + np.where(setting.keep, 0, -1e9).astype(scores.dtype)


def _divided_by_nothing(scores, setting):
    """exp / Σ exp, with no thought of a row that is all −∞: there, 0 / 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        grown = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.finfo(scores.dtype).max))
        return grown / grown.sum(axis=-1, keepdims=True)


def _logit_large_and_finite(scores, setting):
    scores = _bias_only(scores, setting)
    if setting.keep is None:
        return scores
    with np.errstate(over="ignore"):
        return np.where(setting.keep, scores, np.asarray(-1e9).astype(scores.dtype))


def _softmax_unshifted(scores, setting):
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        grown = np.exp(scores)
        return grown / grown.sum(axis=-1, keepdims=True)


def _scale_without_cap(scores, setting):
    return STEPS.scale(scores, replace(setting, softcap=None))


def _cap_after_mask(scores, setting):
    masked = STEPS.mask(scores, setting)
    return masked if setting.softcap is None else setting.softcap * np.tanh(masked / setting.softcap)


def _one_key_too_many(keep, setting, shape):
    first = np.ones_like(keep[..., :1])
    return np.concatenate([first, keep[..., :-1]], axis=-1)


def _wrong_order(keep, setting, shape):
    """Masks of B samples repeated for H heads as 0, 1, 0, 1 where 0, 0, 1, 1 was meant."""
    return np.concatenate([keep[:, 0]] * shape[1]).reshape(shape)


def _on_queries(keep, setting, shape):
    return np.swapaxes(keep, -1, -2) if shape[-1] == shape[-2] else keep


# ---------------------------------------------------------------------------------------------
# Weights that are wrong


def _first_head_for_all(weight, n_heads):
    return np.concatenate([weight[:, : weight.shape[1] // n_heads]] * n_heads, axis=1)


def _shared_projections(layer: MultiHead) -> MultiHead:
    return replace(
        layer,
        w_q=_first_head_for_all(layer.w_q, layer.n_heads),
        w_k=_first_head_for_all(layer.w_k, layer.n_kv_heads),
        w_v=_first_head_for_all(layer.w_v, layer.n_kv_heads),
    )


def _queries_and_keys_swapped(layer: MultiHead) -> MultiHead:
    """Only where both have one shape; elsewhere the swap would raise and be no mistake that lasts."""
    return replace(layer, w_q=layer.w_k, w_k=layer.w_q) if layer.w_q.shape == layer.w_k.shape else layer


def _key_as_value(layer: MultiHead) -> MultiHead:
    return replace(layer, w_v=layer.w_k) if layer.w_v.shape == layer.w_k.shape else layer


CATALOGUE: tuple[Mistake, ...] = (
    Mistake(
        "no scale",
        "M2",
        "sharper weights than meant; at a large d_k almost one-hot",
        "distinct sizes",
        steps=_scaled_by(lambda setting: 1.0),
    ),
    Mistake(
        "divide by √d_model",
        "M2",
        "flatter weights; trains, a little worse",
        "distinct sizes",
        ("tenstorrent/tt-metal#56789", "lucidrains/vit-pytorch#65"),
        steps=_scaled_by(lambda setting: setting.d_model**-0.5),
    ),
    Mistake(
        "divide by √n_heads",
        "M2",
        "right by accident where d_k equals the number of heads",
        "distinct sizes",
        ("lucidrains/vit-pytorch#65",),
        steps=_scaled_by(lambda setting: setting.n_heads**-0.5),
    ),
    Mistake(
        "divide by d_k, or by √d_k twice",
        "M2",
        "nearly even weights",
        "distinct sizes",
        ("YutaroOgawa/pytorch_advanced#174",),
        steps=_scaled_by(lambda setting: 1 / setting.d_k),
    ),
    Mistake(
        "divide by √T",
        "M2",
        "the sharpness depends on how long the sentence is",
        "distinct sizes",
        steps=_scaled_by(lambda setting: max(setting.t_k, 1) ** -0.5),
    ),
    Mistake(
        "multiply by √d_k",
        "M3",
        "one-hot weights from the start",
        "distinct sizes",
        steps=_scaled_by(lambda setting: setting.d_k**0.5),
    ),
    Mistake(
        "softmax over queries",
        "M4",
        "columns sum to 1, rows do not; trains",
        "row sums",
        ("labmlai/annotated_deep_learning_paper_implementations#146",),
        steps=_softmax_over(-2),
    ),
    Mistake(
        "softmax over heads", "M4", "heads compete for each pair of tokens", "row sums", steps=_softmax_over(1)
    ),
    Mistake(
        "softmax over the batch", "M4", "one sample changes another", "row sums", steps=_softmax_over(0)
    ),
    Mistake(
        "softmax over heads and keys together",
        "M4",
        "the rows of one query sum to 1 over all heads: everything H times too small",
        "row sums",
        steps=_softmax_over((1, 3)),
    ),
    Mistake(
        "split by reshape",
        "M5",
        "right shape; heads hold pieces of other tokens",
        "distinct sizes",
        ("reczoo/FuxiCTR#30", "hyunwoongko/transformer#15"),
        steps=replace(STEPS, split=_split_by_reshape),
    ),
    Mistake(
        "merge by reshape",
        "M5",
        "right shape; a toy task still trains",
        "distinct sizes",
        ("jsbaan/transformer-from-scratch#6",),
        steps=replace(STEPS, merge=_merge_by_reshape),
    ),
    Mistake(
        "split and merge by reshape",
        "M5",
        "right shape, rows sum to 1, causal; only the tokens are not tokens",
        "permutation",
        ("hyunwoongko/transformer#15",),
        steps=replace(STEPS, split=_split_by_reshape, merge=_merge_by_reshape),
    ),
    Mistake(
        "projections shared by all heads",
        "M10",
        "all heads show one pattern",
        "distinct sizes",
        vary=_shared_projections,
    ),
    Mistake(
        "input sliced instead of projected",
        "M1",
        "no weights before the scores; a head sees a part of the width",
        "distinct sizes",
        steps=replace(STEPS, project=lambda x, weight, bias: x[..., : weight.shape[1]]),
    ),
    Mistake(
        "heads averaged",
        "M9",
        "every head writes the same",
        "distinct sizes",
        steps=replace(STEPS, merge=_heads_averaged),
    ),
    Mistake(
        "output projection missing",
        "M9",
        "heads stay in their own columns",
        "distinct sizes",
        ("Kyubyong/transformer#117",),
        steps=replace(STEPS, output=lambda merged, weight, bias: merged[..., : weight.shape[1]]),
    ),
    Mistake(
        "queries and keys swapped",
        "M4",
        "the picture is mirrored along its diagonal",
        "distinct sizes",
        ("poloclub/transformer-explainer#19",),
        vary=_queries_and_keys_swapped,
    ),
    Mistake(
        "key used as value",
        "M17",
        "trains; the layer has a matrix too many",
        "distinct sizes",
        ("fchollet/deep-learning-with-python-notebooks#261",),
        vary=_key_as_value,
    ),
    Mistake(
        "mask after softmax",
        "M6",
        "rows sum to less than 1; the future shifts the scale of what is left",
        "causal",
        steps=replace(STEPS, mask=_bias_only, normalise=_mask_after_softmax),
    ),
    Mistake(
        "masked logit set to 0",
        "M6",
        "the future keeps a weight of exp(0)",
        "causal",
        steps=replace(STEPS, mask=_logit_zero),
    ),
    Mistake(
        "finite −1e9 for −∞",
        "M6",
        "fine until a query may look at nothing: then the mask cancels out",
        "empty row",
        ("NVIDIA/apex#1390", "bentrevett/pytorch-seq2seq#191"),
        steps=replace(STEPS, mask=_large_and_finite),
    ),
    Mistake(
        "masked logit set to −1e9",
        "M6",
        "fine until a query may look at nothing: then it averages the padding",
        "empty row",
        steps=replace(STEPS, mask=_logit_large_and_finite),
    ),
    Mistake(
        "−∞ on every key of a row",
        "M6",
        "NaN for a sample with nothing in it; a step later it is everywhere",
        "empty row",
        ("pytorch/pytorch#27968",),
        steps=replace(STEPS, normalise=_divided_by_nothing),
    ),
    Mistake(
        "a masked NaN times a weight of 0",
        "M6",
        "garbage in the padding reaches every real token, though its weight is 0",
        "poisoned padding",
        steps=replace(STEPS, mix=lambda weights, v, setting: weights @ share_heads(v, weights.shape[1])),
    ),
    Mistake(
        "mask inverted",
        "M7",
        "accuracy far too good: the model reads the answer",
        "causal",
        ("rasbt/LLMs-from-scratch#1061", "tensorflow/text#894"),
        steps=_masked_by(lambda keep, setting, shape: ~keep),
    ),
    Mistake(
        "causal off by one",
        "M14",
        "every query sees the next token: loss near 0",
        "causal",
        steps=_masked_by(_one_key_too_many),
    ),
    Mistake(
        "causal aligned top-left with a cache",
        "M14",
        "right in training, wrong from the second generated token on",
        "cache",
        ("pytorch/pytorch#108108", "Dao-AILab/flash-attention#517"),
        steps=_masked_by(lambda keep, setting, shape: causal(*shape[-2:], offset=0)),
    ),
    Mistake(
        "padding mask on the queries",
        "M7",
        "real tokens still look at padding",
        "padding",
        ("pytorch/pytorch#64706",),
        steps=_masked_by(_on_queries),
    ),
    Mistake(
        "mask repeated in the wrong order of heads and samples",
        "M13",
        "right with one sample or one head",
        "padding",
        ("pytorch/pytorch#64706",),
        steps=_masked_by(_wrong_order),
    ),
    Mistake(
        "key heads tiled instead of repeated",
        "M13",
        "right shape; queries read another group's keys",
        "grouped heads",
        ("onnx/onnx#7274",),
        steps=replace(
            STEPS,
            score=lambda q, k: STEPS.score(q, _tiled(k, q.shape[1])),
            mix=lambda weights, v, setting: STEPS.mix(weights, _tiled(v, weights.shape[1]), setting),
        ),
    ),
    Mistake(
        "softmax without subtracting the maximum",
        "M17",
        "fine until a score passes 88 in float32: then NaN",
        "large scores",
        steps=replace(STEPS, normalise=_softmax_unshifted),
    ),
    Mistake(
        "softcap after the mask",
        "M6",
        "−∞ becomes −cap: every masked key leaks a little",
        "softcap with a mask",
        steps=replace(STEPS, scale=_scale_without_cap, mask=_cap_after_mask),
    ),
)  # fmt: skip


def named(name: str) -> Mistake:
    """The mistake of that name; KeyError lists the names there are."""
    for mistake in CATALOGUE:
        if mistake.name == name:
            return mistake
    raise KeyError(f"no mistake {name!r}; there are {', '.join(mistake.name for mistake in CATALOGUE)}")
