"""Moving a slider changes sizes, not random numbers."""

import numpy as np

from mha_lib import samples
from mha_lib.dims import Dims


def test_inputs_have_their_shape_and_are_unit_normal():
    x = samples.inputs(Dims(3, 50, 96, 4))
    assert x.shape == (3, 50, 96) and x.dtype == np.float32
    assert abs(x.mean()) < 0.03 and abs(x.std() - 1) < 0.03


def test_sizes_cut_a_corner_and_do_not_redraw():
    small, large = samples.inputs(Dims(2, 5, 12, 3)), samples.inputs(Dims(3, 7, 24, 3))
    assert (small == large[:2, :5, :12]).all()


def test_samples_of_a_batch_differ():
    x = samples.inputs(Dims(4, 6, 12, 3))
    assert not np.allclose(x[0], x[1]) and not np.allclose(x[2], x[3])


def test_weights_depend_on_the_width_alone():
    one, many = samples.layer(Dims(n_heads=1)), samples.layer(Dims(n_heads=16))
    assert (one.w_q == many.w_q).all() and (one.n_heads, many.n_heads) == (1, 16)
    assert not np.allclose(one.w_q, one.w_k)


def test_weights_keep_unit_input_unit():
    dims = Dims(2, 64, 768, 12)
    q = samples.inputs(dims) @ samples.layer(dims).w_q
    assert abs(q.std() - 1) < 0.02


def test_sizes_beyond_the_block_are_drawn_fresh():
    assert samples.inputs(Dims(9, 3, 12, 3)).shape == (9, 3, 12)
    assert samples.inputs(Dims(1, 130, 12, 3)).shape == (1, 130, 12)
    assert samples.layer(Dims(1, 2, 1030, 5)).w_o.shape == (1030, 1030)


def test_seeds_repeat_and_differ():
    dims = Dims(2, 5, 12, 3)
    assert (samples.inputs(dims, seed=1) == samples.inputs(dims, seed=1)).all()
    assert not np.allclose(samples.inputs(dims, seed=1), samples.inputs(dims, seed=2))


def test_a_lesson_cannot_spoil_the_shared_numbers():
    weights = samples.layer(Dims()).w_q
    assert not weights.flags.writeable
