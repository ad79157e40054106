"""The canonical form: the same function as the original, one for all spellings, the same on every interpreter."""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from attnbench.space import evaluate as oracle
from attnbench.space.canonical import key_of
from attnbench.space.evaluate import evaluate, same_signature, signature
from attnbench.space.graph import Graph, program
from attnbench.space.grid import cell_graph, cells
from attnbench.space.parse import parse
from tests.space.random_graphs import random_graph, shuffled

GOLDEN = Path(__file__).with_name("golden_keys.json")
SIZES = ((6, 4), (5, 7))
TOLERANCE = 1e-7
MAX_DRAWS = 3

SAME = [
    ("(q + k) + v", "q + (v + k)"),
    ("q + k + v", "v + (q + k)"),
    ("q * k * v", "v * (q * k)"),
    ("q @ (k.T @ v)", "(q @ k.T) @ v"),
    ("q", "identity(identity(q))"),
    ("q", "q.T.T"),
    ("q", "--q"),
    ("identity(q) @ (identity(identity(k)).T @ v)", "q @ (k.T @ v)"),
    ("q @ (k.T @ v).T @ (v.T @ k)", "q @ v.T @ k @ (v.T @ k)"),
    ("relu(relu(q))", "relu(q)"),
    ("relu(abs(q))", "abs(q)"),
    ("abs(relu(q))", "relu(q)"),
    ("relu(softmax(q) * sigmoid(k))", "softmax(q) * sigmoid(k)"),
    ("abs(-q)", "abs(q)"),
    ("logabs(-q)", "logabs(q)"),
    ("sumnorm(-q)", "sumnorm(q)"),
    ("softsign(-q)", "-softsign(q)"),
    ("(-q) @ (k.T @ (-v))", "q @ (k.T @ v)"),
    ("-(q - k)", "k - q"),
    ("q - q + v", "v"),
    ("l2norm(scale(q))", "l2norm(q)"),
    ("l2norm(l2norm(q))", "l2norm(q)"),
    ("l2norm(l2norm(q @ k.T) @ v)", "l2norm(q @ k.T @ v)"),
    ("l2norm(q @ l2norm(k.T @ v, axis=-2), axis=-2)", "l2norm(q @ (k.T @ v), axis=-2)"),
    ("l2norm(relu(l2norm(q)))", "l2norm(relu(q))"),
    ("l2norm(l1norm(q))", "l2norm(q)"),
    ("l2norm(q * exp(sum(k)))", "l2norm(q)"),
    ("l2norm(q * sum(k))", "l2norm(q) * sign(sum(k))"),
    ("q / sqrt(d) @ k.T @ v", "q @ (k.T @ v) / sqrt(d)"),
    ("q / sqrt(d) + k / sqrt(d)", "(q + k) / sqrt(d)"),
    ("maximum(q, maximum(k, q))", "maximum(k, q)"),
    ("maximum(q, zeros(q))", "relu(q)"),
    ("maximum(q, -q)", "abs(q)"),
    ("softmax(q.T, axis=-2).T", "softmax(q)"),
    ("standardize(q.T).T", "standardize(q)"),
    ("q @ k.T @ sum(v) + q", "sum(q @ (k.T @ v)) + q"),
    ("v * sum(q * k)", "v * sum(k * q)"),
    ("sum(k, axis=-2) * q + zeros(v)", "q * sum(k, axis=-2)"),
    ("zeros(q) @ k.T @ v + v", "v"),
    ("v * mean(q)", "v * sum(q / sqrt(d)) / sqrt(d)"),
    ("(sum(q) * q) @ (k.T @ v)", "sum(q) * (q @ (k.T @ v))"),
    ("(q * sum(v, axis=-2)) @ (k.T @ v)", "q @ ((k * sum(v, axis=-2)).T @ v)"),
    ("v * distance(q, k)", "v * distance(-k, -q)"),
    ("v * cosine(q, k)", "v * cosine(k, q)"),
    ("v * cosine(q, k)", "v * sum(l2norm(q) * l2norm(k))"),
    ("exp(log_softmax(q))", "softmax(q)"),
    ("elu1(log_softmax(q))", "softmax(q)"),
    ("softsign(exp(q))", "sigmoid(q)"),
    ("softmax(log_softmax(q))", "softmax(q)"),
    ("softmax(q + sum(k))", "softmax(q)"),
    ("layernorm(q - sum(k))", "layernorm(q)"),
    ("sqrt(relu(q))", "sqrt(q)"),
    ("v * sum(softmax(q))", "v"),
    ("v + sum(layernorm(q))", "v"),
    ("sigmoid(zeros(q)) + v", "v + sigmoid(zeros(sum(k)))"),
    ("elu1(relu(q)) + v", "relu(q) + v + exp(zeros(k))"),
    ("q * sign(q)", "abs(q)"),
    ("abs(q) * sign(q)", "q"),
    ("abs(q) * k * abs(q)", "q * q * k"),
    ("abs(q * abs(q * abs(q)))", "q * q * abs(q)"),
    ("sign(q) * sign(q) * sign(q)", "sign(q)"),
    ("q * sign(q) * sign(q)", "q"),
    ("abs(q) * sign(abs(q))", "abs(q)"),
    ("sign(q) * sign(q)", "sign(abs(q))"),
    ("log_softmax(q) * sign(log_softmax(q))", "-log_softmax(q)"),
    ("sign(log_softmax(q)) * sign(log_softmax(q))", "-sign(log_softmax(q))"),
    ("sign(relu(q)) * sign(relu(q))", "sign(relu(q))"),
    ("q * recip(k)", "q / k"),
    ("(q @ k.T) @ (sum(v) + zeros(v))", "q @ k.T @ sum(v) + zeros(q)"),
]
DIFFERENT = [
    ("q @ (k.T @ v)", "k @ (q.T @ v)"),
    ("softmax(q)", "softmax(q, axis=-2)"),
    ("l2norm(relu(q))", "relu(l2norm(q))"),
    ("l2norm(q)", "l2norm(q, axis=-2)"),
    ("l2norm(l2norm(q, axis=-2))", "l2norm(q)"),
    ("l1norm(scale(q))", "l1norm(q)"),
    ("layernorm(scale(q))", "layernorm(q)"),
    ("standardize(standardize(q))", "standardize(q)"),
    ("softmax(scale(q))", "softmax(q)"),
    ("softmax(-q)", "softmax(q)"),
    ("relu(-q)", "relu(q)"),
    ("minmax(-q)", "minmax(q)"),
    ("sqrt(q) * sqrt(q)", "relu(q)"),
    ("q * recip(q)", "exp(zeros(q))"),
    ("sign(abs(relu(q)))", "exp(zeros(q))"),
    ("sign(relu(q)) * sign(relu(q))", "exp(zeros(q))"),
    ("l2norm(q * sum(k))", "l2norm(q)"),
    ("sum(q) + zeros(q)", "q"),
    ("mean(q, axis=-2) + zeros(q)", "sum(q, axis=-2) + zeros(q)"),
    ("q + q", "q"),
    ("scale(q)", "q"),
    ("zeros(q)", "q"),
]


@pytest.mark.parametrize(("a", "b"), SAME)
def test_two_spellings_one_key(a, b):
    a, b = parse(a), parse(b)
    assert a.canonical == b.canonical
    assert a.key == b.key
    assert a.same_function(b)


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_two_functions_two_keys(a, b):
    a, b = parse(a), parse(b)
    assert a.key != b.key
    assert not a.same_function(b)


def test_sigmoid_reverse_is_the_sigmoid_of_minus_x():
    assert same_signature(signature(parse("exp(zeros(q)) - sigmoid(q)")), signature(parse("sigmoid(-q)")))
    assert parse("sigmoid(-q)").key == parse("sigmoid(--(-q))").key != parse("sigmoid(q)").key


@pytest.mark.parametrize("factor", ["q + k", "k - v"])
def test_a_sign_that_the_signature_does_not_see_is_seen(factor):
    a, b = parse(f"v * sign(sum(sum({factor}, axis=-2)))"), parse("v")
    assert same_signature(signature(a), signature(b))
    assert not a.same_function(b)


def gap(a: np.ndarray, b: np.ndarray) -> float:
    """Largest difference relative to the largest value of `a`; not a number where either is not finite."""
    largest = np.abs(a).max()
    return float(np.abs(a - b).max() / largest if largest > 0 else np.abs(b).max())


def rounded_at_random(graph: Graph, q: np.ndarray, k: np.ndarray, v: np.ndarray, rng: np.random.Generator):
    """The output with a relative error of 1e-12 after every step, or not a number where a rule's premise fails.

    Where this differs from the output, cancellation has made it noise in either spelling. The premises: no underflow
    of what is positive, no `sign` beside its jump, no row so small that l2norm's 1e-12 is much of it; the little that
    it is counts as an error of rounding.
    """
    inputs, values = {"q": q, "k": k, "v": v}, []
    with np.errstate(all="ignore"):
        for op, args, axis, _ in program(graph.root):
            operands = [values[i] for i in args]
            options = {} if axis is None else {"axis": axis}
            if op == "scale":
                options["width"] = q.shape[-1]
            value = oracle.FUNCTIONS[op](*operands, **options) if args else inputs[op]
            error = 1e-12
            if op in ("l2norm", "cosine"):
                least = min(squares[squares != 0].min(initial=1) for squares in map(_squares(axis or -1), operands))
                error += 1e-12 / least
            underflow = op in ("softmax", "exp", "sigmoid", "elu1") and value.min() == 0
            jump = op == "sign" and np.any((operands[0] != 0) & (abs(operands[0]) < 1e-5))
            if underflow or jump or error > 1e-7:
                return np.nan
            values.append(value * (1 + error * rng.standard_normal(value.shape)))
    return values[-1]


def _squares(axis: int):
    return lambda x: (x**2).sum(axis=axis)


def compare(seed: int, count: int, size: int) -> tuple[int, int]:
    """Holds `count` random graphs to their canonical forms; evaluations, and redraws among them."""
    rng, noise = random.Random(seed), np.random.default_rng(seed)
    draws = redraws = 0
    for _ in range(count):
        graph = random_graph(rng, rng.randint(2, size))
        again = parse(graph.canonical)
        assert again.canonical == graph.canonical, graph.text
        for n, d in SIZES:
            for _ in range(MAX_DRAWS):
                draws += 1
                q, k, v = noise.standard_normal((3, n, d))
                expected, found = evaluate(graph, q, k, v), evaluate(again, q, k, v)
                errors = [
                    gap(expected, rounded_at_random(graph, q, k, v, noise)),
                    gap(found, rounded_at_random(again, q, k, v, noise)),
                ]
                if all(error < TOLERANCE / 10 for error in errors):
                    assert gap(expected, found) < TOLERANCE, f"{graph.text} is not {again.text}"
                    break
                redraws += 1
    return draws, redraws


def test_canonical_form_is_the_same_function():
    draws, redraws = compare(seed=20, count=5000, size=11)
    assert draws >= 2 * 5000
    assert redraws <= 0.05 * draws, f"{redraws} of {draws} draws were ill-conditioned"


@pytest.mark.slow
def test_canonical_form_is_the_same_function_for_large_graphs():
    draws, redraws = compare(seed=21, count=15_000, size=24)
    assert redraws <= 0.15 * draws, f"{redraws} of {draws} draws were ill-conditioned"


def test_respelling_keeps_the_key():
    rng = random.Random(22)
    different = 0
    for _ in range(1500):
        graph = random_graph(rng, rng.randint(2, 14))
        other = shuffled(rng, graph.root)
        if other.depth > 40:
            continue
        different += other != graph.root
        assert Graph(other).canonical == graph.canonical, f"{graph.text} and {Graph(other).text}"
    assert different > 1000


def test_rules_know_the_equalities_among_random_graphs():
    """Functions that evaluate alike share a key, but for accidents of a few operators: zeros, ones, clipped parts."""
    rng = random.Random(23)
    found = {}
    for _ in range(3000):
        graph = random_graph(rng, rng.randint(2, 9))
        found.setdefault(graph.canonical, signature(graph))
    ordered = sorted((numbers, text) for text, numbers in found.items() if max(map(abs, numbers)) > 1e-9)
    missed = [
        (a, b)
        for i, (numbers, a) in enumerate(ordered)
        for others, b in ordered[i + 1 : i + 4]
        if same_signature(numbers, others)
    ]
    assert len(missed) <= 0.02 * len(found), missed


def test_no_two_keys_of_the_grid_are_the_same_function():
    by_key = {}
    for cell in cells():
        graph = cell_graph(cell)
        numbers = by_key.setdefault(graph.key, signature(graph))
        assert same_signature(numbers, signature(graph)), f"{graph.text} has another function's key"
    assert len(by_key) == 1368
    ordered = sorted(by_key.values())
    for i, numbers in enumerate(ordered):
        assert not any(same_signature(numbers, other) for other in ordered[i + 1 : i + 8])


def test_keys_are_those_of_the_golden_file():
    golden = json.loads(GOLDEN.read_text())
    assert len(golden) > 100
    assert {text: parse(text).key for text in golden} == golden


def test_key_is_a_digest_of_the_canonical_text():
    assert parse("q @ (k.T @ v)").canonical == "q @ k.T @ v"
    assert parse("q @ (k.T @ v)").key == key_of("q @ k.T @ v") == "ag1-f1b26541eaff59aa5374e41901e887e0"


KEYS = """
import json, sys
from attnbench.space.parse import parse
texts = json.load(sys.stdin)
assert not {"numpy", "torch"} & set(sys.modules)
json.dump({text: parse(text).key for text in texts}, sys.stdout)
"""


def interpreters() -> list[str]:
    """The Pythons of this machine that can be run, whatever packages they have."""
    names = [f"python3.{minor}" for minor in (10, 11, 12, 13, 14)]
    found = [path for path in map(shutil.which, names) if path]
    found += [str(path) for path in Path.home().glob(".pyenv/versions/3.1*/bin/python")]
    runnable = [p for p in found if subprocess.run([p, "-c", ""], capture_output=True, check=False).returncode == 0]
    return list(dict.fromkeys(runnable))


@pytest.mark.parametrize("python", [sys.executable, *interpreters()])
@pytest.mark.parametrize("hash_seed", ["0", "4711"])
def test_keys_do_not_depend_on_the_interpreter(python, hash_seed, root):
    golden = json.loads(GOLDEN.read_text())
    done = subprocess.run(
        [python, "-c", KEYS],
        input=json.dumps(list(golden)),
        capture_output=True,
        text=True,
        check=True,
        cwd=root,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert json.loads(done.stdout) == golden
