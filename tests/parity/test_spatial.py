"""Every function that core/python/spatial_module.cpp binds equals its NumPy twin, in every build this machine can run.

supple itself does not call these bindings; they exist for this comparison.
"""

import importlib

import numpy as np
import pytest

from supple import _core, _cpu, spatial

RUNNABLE = _core.VARIANTS[: _core.VARIANTS.index(_cpu.best_variant()) + 1]
BUILDS = [name for name in _core.built_variants() if name in RUNNABLE]

# arguments of each function: t twist, w rotation vector, h pose, r rotation, m mass, i inertia
ARGUMENTS = {
    "so3_exp": "w",
    "so3_log": "r",
    "so3_right_jacobian": "w",
    "so3_right_jacobian_inverse": "w",
    "so3_right_jacobian_inverse_directional": "ww",
    "spatial_exp": "t",
    "spatial_log": "h",
    "spatial_inverse": "h",
    "spatial_adjoint": "h",
    "spatial_ad": "t",
    "spatial_right_jacobian": "t",
    "spatial_right_jacobian_inverse": "t",
    "spatial_transform_twist": "ht",
    "spatial_transform_wrench": "ht",
    "spatial_inertia": "mwi",
}


@pytest.fixture(params=BUILDS)
def core(request):
    return importlib.import_module(f"supple._core_{request.param}")


def twin(name):
    return getattr(spatial, name if hasattr(spatial, name) else name.removeprefix("spatial_"))


def samples(kind, angles, rng):
    """A batch of arguments, with rotations by the given angles where they have any."""
    n = len(angles)
    axes = rng.normal(size=(n, 3))
    w = angles[:, None] * axes / np.linalg.norm(axes, axis=1, keepdims=True)
    xi = np.concatenate([rng.normal(size=(n, 3)), w], axis=1)
    makers = {
        "w": lambda: w,
        "t": lambda: xi,
        "r": lambda: spatial.so3_exp(w),
        "h": lambda: spatial.exp(xi),
        "m": lambda: rng.uniform(0.1, 3.0, size=n),
        "i": lambda: spatial.so3_exp(w) @ np.diag([1.0, 2.0, 3.0]) @ np.swapaxes(spatial.so3_exp(w), 1, 2),
    }
    return makers[kind]()


def arguments(name, angles, seed=0):
    rng = np.random.default_rng(seed)
    return [samples(kind, angles, rng) for kind in ARGUMENTS[name]]


NEAR = np.concatenate(
    [[0.0], np.logspace(-12, -1, 12), np.linspace(0.1, 3.1, 61), np.pi - np.logspace(-9, -2, 8)]
)
FAR = np.array([np.pi, 3.16, 3.17, 4.0, 5.0, 6.0, 7.0, 20.0])


def test_every_compiled_function_is_compared(core):
    compiled = {name for name in dir(core) if name.startswith(("so3_", "spatial_"))}
    assert compiled == set(ARGUMENTS)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_equals_its_twin(core, name):
    angles = NEAR if name.endswith("_log") else np.concatenate([NEAR, FAR])
    inputs = arguments(name, angles)
    expected = twin(name)(*inputs)
    actual = getattr(core, name)(*inputs)
    assert actual.shape == expected.shape
    assert actual.dtype == np.float64
    axes = tuple(range(1, expected.ndim))
    error = np.sqrt(((actual - expected) ** 2).sum(axis=axes))
    size = np.sqrt((expected**2).sum(axis=axes))
    assert (error <= 2e-14 * size).all(), angles[error > 2e-14 * size]


@pytest.mark.parametrize("name", ["so3_log", "spatial_log"])
def test_tiny_rotations_keep_their_digits(core, name):
    angles = np.logspace(-200, -3, 50)
    inputs = arguments(name, angles)
    actual, expected = getattr(core, name)(*inputs), twin(name)(*inputs)
    np.testing.assert_allclose(actual[:, -3:], expected[:, -3:], rtol=1e-13, atol=0)


def test_half_turns(core):
    axes = np.random.default_rng(0).normal(size=(20, 3))
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    half_turns = 2 * axes[:, :, None] * axes[:, None, :] - np.eye(3)
    w = core.so3_log(half_turns)
    np.testing.assert_allclose(np.linalg.norm(w, axis=1), np.pi, rtol=1e-15)
    np.testing.assert_allclose(core.so3_exp(w), half_turns, atol=2e-15)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_empty_batch(core, name):
    inputs = arguments(name, np.zeros(0))
    assert getattr(core, name)(*inputs).shape == twin(name)(*inputs).shape


def test_strided_and_integer_arrays_are_converted(core):
    xi = np.random.default_rng(0).normal(size=(6, 8)).T
    np.testing.assert_allclose(core.spatial_exp(xi[::2]), spatial.exp(xi[::2]), rtol=1e-14, atol=1e-15)
    whole = np.arange(12).reshape(2, 6)
    np.testing.assert_allclose(core.spatial_ad(whole), spatial.ad(whole))


def test_wrong_shapes_are_refused(core):
    with pytest.raises(TypeError):
        core.spatial_exp(np.zeros((2, 5)))
    with pytest.raises(ValueError, match="differ in length"):
        core.spatial_transform_twist(np.zeros((2, 4, 4)), np.zeros((3, 6)))


def test_the_result_owns_its_memory(core):
    xi = np.zeros((4, 6))
    poses = core.spatial_exp(xi)
    xi[:] = 1.0
    poses[0, 0, 3] += 2.0
    np.testing.assert_array_equal(poses[1:], np.broadcast_to(np.eye(4), (3, 4, 4)))
