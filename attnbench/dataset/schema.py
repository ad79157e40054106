"""The single registry of every table and column: dtype, unit, direction, source.

The pyarrow schemas, the checks of `verify` and the pages of the dataset card all follow from it.
"""

from __future__ import annotations

from attnbench.dataset.table import Column, Table

STATUSES = ("ok", "stopped", "diverged")
KINDS = ("attention", "subnet")

# Chance is what a diverged run counts as: 100 / classes of the protocol's data.
PROTOCOL_CLASSES = {
    "fmnist-micro": 10,
    "micro-scratch": 10,
    "micro-entangled": 10,
    "micro-classical": 10,
    "cifar100-300e": 100,
    "flowers-300e": 102,
    "imagenet-300e": 1000,
}

# What `query` asks for where nothing is said; a subnet's backbone is its space.
DEFAULT_BACKBONE = "deit"
DEFAULT_PROTOCOL = {"attention": "fmnist-micro", "subnet": "micro-scratch"}

# A subnet is read out of a trained supernet: searches choose by these, so test stays unread.
INHERITED_PROTOCOLS = ("micro-entangled", "micro-classical")

KEY = Column(
    "key",
    "string",
    "canonical key of the function: `ag1-` (attention) or `sn1-` (subnet) and 32 hex digits; "
    "128-bit BLAKE2b of the canonical text",
    source="space/canonical.py",
)
TEXT = Column(
    "text",
    "string",
    "the spelling that was measured; the formula over q, k, v, or the subnet's specification",
    source="space/parse.py",
)
BACKBONE = Column(
    "backbone", "string", "deit, pvt, swin, cswin (micro sizes), a full size's name, or the space of a subnet"
)


ARCHITECTURES = Table(
    "architectures",
    "Every architecture of the benchmark, one row per function, failures included.",
    (
        KEY,
        Column("kind", "string", f"one of {', '.join(KINDS)}"),
        Column("text", "string", "the shortest spelling among its origins", source="builders/enumerate.py"),
        Column("in_grid", "bool", "some cell of the closed grid is this function"),
        Column("is_named", "bool", "a published formula, a published trial or a control"),
        Column("is_wild", "bool", "drawn from the released sampler's distribution, conditioned on soundness"),
        Column("names", "list<string>", "names under which it can be queried, the first is the usual one"),
        Column("graph_type", "string", "AttnZero's graph type (i3n2 … i3n305)", nullable=True),
        Column("genotype", "string", "AttnZero genotype as JSON; null where none is known", nullable=True),
        Column("complexity", "string", "order of the cost in the number of tokens N"),
        Column("is_sound", "bool", "passes every check; null where it was not checked", nullable=True),
        Column("failed_checks", "list<string>", "names of the checks that it fails", source="builders/check.py"),
        Column("reasons", "list<string>", "one sentence per failed check, naming the sub-expression"),
        Column(
            "signature",
            "list<float64>",
            "16 float64 projections of the output on fixed inputs; equal functions have equal ones to 1e-9, "
            "it is no identifier",
            nullable=True,
            source="space/canonical.py",
        ),
    ),
    ("key",),
    "builders enumerate, check, subnets",
)

CELLS = Table(
    "cells",
    "The closed grid: six coordinates to a key. Cells of one function share a key.",
    (
        Column("family", "string", "i3n2, i3n301, i3n302, i3n303, i3n304, i3n305 or linear"),
        Column("q_activation", "string", "none, relu or elu1, on the query side"),
        Column("q_norm", "string", "none, l2norm or l2norm_tokens (axis=-2), on the query side"),
        Column("k_activation", "string", "as q_activation, on the key side"),
        Column("k_norm", "string", "as q_norm, on the key side"),
        Column("middle", "string", "none, softmax or l2norm, on axis -1 of the d×d product"),
        KEY,
    ),
    ("family", "q_activation", "q_norm", "k_activation", "k_norm", "middle"),
    "builders enumerate",
)

COSTS = Table(
    "costs",
    "What an architecture costs in a backbone; independent of training.",
    (
        KEY,
        BACKBONE,
        Column("params", "int64", "trainable parameters of the whole model", unit="count", better="lower"),
        Column(
            "macs",
            "int64",
            "multiply-adds of one image through the whole model, attention products counted",
            unit="count",
            better="lower",
        ),
        Column(
            "step_ms",
            "float64",
            "one training step of the protocol, median of one quiet pass on one machine: the simulated clock",
            unit="ms",
            better="lower",
            nullable=True,
        ),
    ),
    ("key", "backbone"),
    "builders cost, subnets",
)

RUNS = Table(
    "runs",
    "One training run from scratch, or a subnet with the weights it inherits from a trained supernet (protocols "
    f"{' and '.join(INHERITED_PROTOCOLS)}). Nothing is imputed; failures keep what was measured.",
    (
        KEY,
        TEXT,
        BACKBONE,
        Column("protocol", "string", "name of the recipe, e.g. fmnist-micro"),
        Column("protocol_hash", "string", "hash of the recipe as frozen for this backbone", source="nn/protocol.py"),
        Column("seed", "int32", "fixes initial weights and data order, of the supernet where weights are inherited"),
        Column(
            "status",
            "string",
            "ok; stopped (validation under the protocol's floor); diverged (NaN or infinite loss)",
        ),
        Column(
            "val_curve",
            "list<float64>",
            "validation top-1 after each epoch; one value where weights are inherited",
            unit="percent",
            better="higher",
        ),
        Column(
            "val_loss_curve",
            "list<float64>",
            "validation loss after each epoch; one value where weights are inherited",
            unit="nats",
            better="lower",
        ),
        Column(
            "train_loss_curve",
            "list<float64>",
            "mean training loss of each epoch, of the supernet where weights are inherited",
            unit="nats",
            better="lower",
        ),
        Column(
            "val_top1_percent",
            "float64",
            "validation top-1 after the last epoch that ran; null when the run diverged (it counts as chance)",
            unit="percent",
            better="higher",
            nullable=True,
        ),
        Column(
            "val_loss",
            "float64",
            "validation loss after the last epoch that ran; null when the run diverged",
            unit="nats",
            better="lower",
            nullable=True,
        ),
        Column(
            "test_top1_percent",
            "float64",
            "test top-1, read once after the protocol's last epoch; null unless status is ok, and where weights are "
            "inherited: a search chooses by these",
            unit="percent",
            better="higher",
            nullable=True,
        ),
        Column(
            "test_loss",
            "float64",
            "test loss, read with the test top-1; null where that is",
            unit="nats",
            better="lower",
            nullable=True,
        ),
        Column(
            "train_seconds",
            "float64",
            "wall time of training, without evaluation; of the whole supernet where weights are inherited",
            unit="s",
            better="lower",
        ),
        Column("device", "string", "processor that trained"),
        Column("torch_version", "string", "version of torch"),
        Column("code_version", "string", "version of attnbench that trained"),
        Column("finished_at", "string", "end of the run, UTC, ISO 8601"),
    ),
    ("key", "backbone", "protocol_hash", "seed"),
    "builders train, supernet",
)

PROXIES = Table(
    "proxies",
    "One zero-cost score of one architecture in one backbone with one set of initial weights.",
    (
        KEY,
        TEXT,
        BACKBONE,
        Column("proxy", "string", "name in the registry of proxies; parts are `name.part`, e.g. dss.qkv"),
        Column("value", "float64", "the score; null when status is not ok", nullable=True),
        Column("seconds", "float64", "time to score", unit="s", better="lower"),
        Column("weight_seed", "int32", "seed of the initial weights"),
        Column("status", "string", "ok, or nonfinite where the score is NaN or infinite"),
    ),
    ("key", "backbone", "proxy", "weight_seed"),
    "builders score",
)

REJECTIONS = Table(
    "rejections",
    "Why raw draws of a sampler are no attention: counts of every reason, and so each sampler's yield.",
    (
        Column("stage", "string", "the check that refused, or `sound` for what passed"),
        Column("sampler", "string", "whose operators and distribution were drawn from"),
        Column("reason", "string", "why; empty for what passed"),
        Column("count", "int64", "draws with this outcome", unit="count"),
        Column("n_drawn", "int64", "draws in all", unit="count"),
    ),
    ("stage", "sampler", "reason"),
    "builders check",
)

LATENCY = Table(
    "latency",
    "Time and memory of one attention alone over the number of tokens: no projections, no network around it. Batch 1, "
    "one head of width 64, float32, inference, one thread, denormal numbers flushed to zero, freed memory kept.",
    (
        KEY,
        TEXT,
        Column("n_tokens", "int32", "number of tokens N", unit="count"),
        Column(
            "latency_ms",
            "float64",
            "one forward pass without gradients, in processor time: the fastest of five rounds' medians",
            unit="ms",
            better="lower",
        ),
        Column(
            "peak_bytes",
            "int64",
            "most memory allocated at once, the result counted, q, k and v not",
            unit="bytes",
            better="lower",
        ),
        Column("device", "string", "processor that was timed"),
        Column("threads", "int32", "threads it was given", unit="count"),
        Column("torch_version", "string", "version of torch"),
    ),
    ("key", "n_tokens"),
    "builders latency",
)

PUBLISHED = Table(
    "published",
    "A figure as a paper or its code reports it: nothing here was measured by us. Joined with `architectures` by "
    "`model` where that is one of its names.",
    (
        Column("model", "string", "the network: a size of a backbone, such as DeiT-T, or a published subnet"),
        Column("method", "string", "its attention, the search that found it, or how it was trained"),
        Column("dataset", "string", "what was trained and evaluated on"),
        Column("image_size", "int32", "height and width", unit="pixels"),
        Column("metric", "string", "what `value` is: top1, top5, search_cost or params; parts after a dot"),
        Column("value", "float64", "the figure, in `unit`"),
        Column("unit", "string", "percent, GPU-days or count"),
        Column("params", "int64", "parameters as reported, often rounded", unit="count", better="lower", nullable=True),
        Column("macs", "int64", "multiply-adds as reported (often called FLOPs)", "count", "lower", nullable=True),
        Column("source", "string", "paper or repository that reports it"),
        Column("note", "string", "what to know before comparing; empty where nothing is"),
    ),
    ("model", "method", "dataset", "image_size", "metric", "source"),
    "builders published",
)

TABLES: dict[str, Table] = {
    table.name: table for table in (ARCHITECTURES, CELLS, COSTS, LATENCY, RUNS, PROXIES, REJECTIONS, PUBLISHED)
}
