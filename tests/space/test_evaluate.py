"""The oracle: whole formulas, and the signature that compares functions."""

import numpy as np
import pytest

from attnbench.space.evaluate import evaluate, same_signature, signature, standard_normal
from attnbench.space.graph import K, Q, build
from attnbench.space.parse import parse


@pytest.fixture
def qkv() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(1)
    return tuple(rng.standard_normal((2, 3, 9, 4)) for _ in range(3))


def test_softmax_attention_is_what_the_textbook_says(qkv):
    q, k, v = qkv
    scores = np.exp(q @ k.swapaxes(-1, -2) / 2)
    expected = scores / scores.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(evaluate(parse("softmax(q @ k.T / sqrt(d)) @ v"), q, k, v), expected, rtol=1e-12)


def test_a_trial_by_hand(qkv):
    q, k, v = qkv
    low, high = v.min((-2, -1), keepdims=True), v.max((-2, -1), keepdims=True)
    mixed = ((v - low) / (high - low + 1e-6)).swapaxes(-1, -2) @ np.where(k > 0, k + 1, np.exp(k))
    mixed = (mixed - mixed.mean((-2, -1), keepdims=True)) / np.sqrt(mixed.var((-2, -1), keepdims=True) + 1e-6)
    out = q / np.linalg.norm(q, axis=-1, keepdims=True) @ mixed
    expected = q * (out / np.linalg.norm(out, axis=-1, keepdims=True))
    graph = parse("q * l2norm(l2norm(q) @ standardize(minmax(v).T @ elu1(k)))")
    np.testing.assert_allclose(evaluate(graph, q, k, v), expected, rtol=1e-9)


def test_sub_expressions_float64_and_any_leading_axes(qkv):
    q, k, v = (x[0, 0].astype(np.float32) for x in qkv)
    out = evaluate(build("matmul", build("T", Q), K), q, k, v)
    assert out.shape == (4, 4)
    assert out.dtype == np.float64
    assert evaluate(parse("batchnorm(q)"), q, k, v).mean() == pytest.approx(0, abs=1e-12)


def test_inputs_are_not_changed(qkv):
    copies = [x.copy() for x in qkv]
    evaluate(parse("softmax(relu(q)) * scale(k) + maximum(-v, k)"), *qkv)
    assert all((x == copy).all() for x, copy in zip(qkv, copies, strict=True))


def test_signature_is_16_stored_numbers():
    numbers = signature(parse("q @ (k.T @ v)"))
    assert len(numbers) == 16
    np.testing.assert_allclose(numbers[:2] + numbers[8:10], SIGNATURE, rtol=1e-12)


SIGNATURE = (77.30058303184518, 53.40870619802865, -43.229758343105466, -28.59698573550203)


def test_signature_sees_tokens_samples_and_small_changes():
    texts = [
        "q",
        "q / sqrt(d)",
        "mean(q) + zeros(q)",
        "layernorm(q, axis=-2)",
        "batchnorm(q)",
        "q + v - v * exp(zeros(v))",
    ]
    texts += ["l1norm(q)", "l1norm(scale(q))", "softmax(q)", "l2norm(q)"]
    numbers = [signature(parse(text)) for text in texts]
    alike = [(a, b) for a in range(10) for b in range(a) if same_signature(numbers[a], numbers[b])]
    assert [(texts[a], texts[b]) for a, b in alike] == [("q + v - v * exp(zeros(v))", "q")]


def test_what_is_not_finite_is_the_same_as_nothing():
    bad = (float("nan"),) * 16
    assert not same_signature(bad, bad)
    assert not same_signature((float("inf"),) * 16, (float("inf"),) * 16)
    assert same_signature((0.0,) * 16, (1e-18,) * 16)


def test_stored_inputs_are_normal_and_depend_on_their_label_alone():
    x = standard_normal("a label", (200, 50))
    assert abs(x.mean()) < 0.03
    assert abs(x.std() - 1) < 0.02
    assert (x == standard_normal("a label", (200, 50))).all()
    assert (x != standard_normal("another", (200, 50))).all()
