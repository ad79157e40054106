"""Writes the parts of README.md and docs/ that follow from tables or code: `python -m builders readme`.

A part stands between `<!-- generated: NAME -->` and `<!-- end -->`; SECTIONS says what each name is made of.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import statistics
import textwrap
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import attnbench
from attnbench.dataset.atomic import replacing
from builders import sections

ROOT = Path(__file__).resolve().parents[1]
BACKBONE = "deit"
# A micro subnet with runs of every protocol.
SUBNET = "autoformer(embed_dim=48, heads=[4, 3], mlp_ratios=[4, 2], head_dim=12)"

# Names of the graphs that show whether the table can be trusted: three that attend to nothing, and known good ones.
CONTROLS = (
    "v",
    "zeros",
    "uniform",
    "softmax",
    "kernel linear elu1",
    "kernel linear relu",
    "xca",
    "hydra",
    "Trial 105",
    "Trial 140",
)

# Stages at which a raw draw may end, in the order in which they are met, in the words of the table of yields.
STAGES = {
    "forward": "the program fails to run",
    "shape": "shapes do not fit, or an operator has no sound meaning",
    "linear": "quadratic in the number of tokens",
    "finite": "the output is not finite",
    "varies": "the output is constant",
    "gradients": "a gradient is zero or not finite",
    "mixes": "no token reaches another",
    "batch": "a sample's output depends on the others",
    "new": "the same function as an earlier draw",
    "sound": "**sound**",
}


@cache
def _load(data: Path) -> Any:
    return attnbench.load(data)


def counts(data: Path) -> str:
    """Rows of each table."""
    lines = ["| table | rows |", "|---|---:|"]
    lines += [f"| `{name}` | {rows:,} |" for name, rows in sorted(_load(data).tables.items())]
    return "\n".join(lines)


def runs(data: Path) -> str:
    """Training runs by backbone and seed, how they ended, and the range of what they reached."""
    frame = _load(data).sql(
        """
        select backbone, protocol, seed, count(*) as n,
               count(*) filter (status = 'ok') as ok, count(*) filter (status = 'stopped') as stopped,
               count(*) filter (status = 'diverged') as diverged,
               quantile_cont(val_top1_percent, 0.5) filter (status = 'ok') as median,
               max(val_top1_percent) filter (status = 'ok') as best
        from runs group by all order by backbone, protocol, seed
        """
    )
    lines = [
        "| backbone | protocol | seed | runs | ok | stopped | diverged | median validation top-1 of ok, % | best, % |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in frame.itertuples():
        lines.append(
            f"| {row.backbone} | `{row.protocol}` | {row.seed} | {row.n:,} | {row.ok:,} | {row.stopped:,} "
            f"| {row.diverged:,} | {row.median:.1f} | {row.best:.1f} |"
        )
    return "\n".join(lines)


def controls(data: Path) -> str:
    """Mean and spread of the control graphs over their seeds."""
    lines = [
        "| name | formula | validation top-1, % | test top-1, % | seeds | status |",
        "|---|---|---:|---:|---:|---|",
    ]
    for name in CONTROLS:
        row = _load(data).query(name, backbone=BACKBONE)
        tests = [run.test_top1_percent for run in row.runs if run.test_top1_percent is not None]
        lines.append(
            f"| {name} | `{row.text}` | {_spread([run.val_top1_percent for run in row.runs])} "
            f"| {_spread(tests)} | {row.n_seeds} | {row.status} |"
        )
    return "\n".join(lines)


def noise(data: Path) -> str:
    """How far seeds lie apart, and from which difference on two graphs can be told apart."""
    from attnbench.analysis.accuracy import seed_matrix
    from attnbench.analysis.noise import seed_noise
    from attnbench.analysis.proxies import populations

    bench = _load(data)
    matrix = seed_matrix(bench.table("runs"), backbone=BACKBONE)
    of = populations(matrix, bench.table("architectures"))
    found = seed_noise(matrix.loc[of["sound"]], n_resamples=0)
    if found.seed_sd is None or found.variant_sd is None:
        return f"Seed noise is unknown: {found.reason}."
    # Of a difference of two means of k seeds the standard deviation is sd · sqrt(2 / k); twice that is some 95 %.
    apart = {k: 2 * found.seed_sd * (2 / k) ** 0.5 for k in (1, 3)}
    return textwrap.fill(
        f"Training a sound graph again with another seed moves its validation top-1 by {found.seed_sd:.2f} points "
        f"(pooled standard deviation over the {found.n:,} sound graphs that have several seeds); the graphs' means lie "
        f"{found.variant_sd:.2f} points apart (standard deviation). Two graphs with one seed each can be told apart "
        f"only from a difference of about {apart[1]:.1f} points on, with three seeds each from about {apart[3]:.1f}. "
        "The first places of any ranking here are therefore shared by many.",
        width=120,
    )


def yields(data: Path) -> str:
    """Where raw draws of the released sampler end, in percent, under each of the samplers that were counted."""
    frame = _load(data).sql(
        "select sampler, stage, sum(count) / max(n_drawn) as share, max(n_drawn) as n from rejections group by all"
    )
    samplers = sorted(frame["sampler"].unique(), reverse=True)
    share = {(row.sampler, row.stage): row.share for row in frame.itertuples()}
    n_drawn = max(frame["n"])
    headings = [f"{sampler.removeprefix('released distribution, ')}, %" for sampler in samplers]
    lines = [
        f"| of {n_drawn:,} raw draws | " + " | ".join(headings) + " |",
        "|---|" + "---:|" * len(samplers),
    ]
    for stage, meaning in STAGES.items():
        if any((sampler, stage) in share for sampler in samplers):
            cells = [f"{100 * share[s, stage]:.2f}" if (s, stage) in share else "" for s in samplers]
            lines.append(f"| {meaning} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def speed(data: Path) -> str:
    """The first table of the page of measured speeds, where one was written."""
    page = ROOT / "benchmarks" / "speed.md"
    if not page.is_file():
        return textwrap.fill(
            "No figures are published yet. `python benchmarks/query.py`, `search.py`, `rank.py`, `space.py` and "
            "`train.py` measure them on your machine, beside the peers that are installed.",
            width=120,
        )
    first, *more = page.read_text(encoding="utf-8").split("\n## ")
    titles = [part.splitlines()[0].strip() for part in more]
    rest = [f"\nMore, in [benchmarks/speed.md](benchmarks/speed.md): {'; '.join(titles)}."] if titles else []
    return "\n".join([first.strip(), *rest])


def command(line: str) -> Callable[[Path], str]:
    """A section that shows one command and what it prints."""

    def show(data: Path) -> str:
        from attnbench.cli import main

        out = io.StringIO()
        plain = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
        with mock.patch.dict(os.environ, plain), contextlib.redirect_stdout(out):
            code = main([*shlex.split(line), "--data", str(data)])
        if code:
            raise RuntimeError(f"`attnbench {line}` exited with {code}; README.md shows working commands only.")
        printed = "\n".join(text.rstrip() for text in out.getvalue().splitlines()).strip("\n")
        return f"```console\n$ attnbench {line}\n{printed}\n```"

    return show


SECTIONS: dict[str, Callable[[Path], str]] = {
    "counts": counts,
    "runs": runs,
    "controls": controls,
    "query": command('query "softmax(q) @ (softmax(k, axis=-2).T @ v)"'),
    "top": command("top -n 5"),
    "search": command("search --budget 100 --seeds 20"),
    "noise": noise,
    "transfer": sections.transfer,
    "tau": partial(sections.tau, only="sound"),
    "tau-all": sections.tau,
    "tau-subnets": sections.where_measured("autoformer-micro", "micro-scratch")(
        partial(
            sections.tau,
            only="all",
            backbone="autoformer-micro",
            protocol="micro-scratch",
            given="params",
        )
    ),
    "size": sections.size,
    "subnet": sections.where_measured("autoformer-micro", "micro-scratch")(command(f'query "{SUBNET}"')),
    "search-subnets": sections.where_measured("autoformer-micro", "micro-scratch", "micro-entangled")(
        command("search --space autoformer-micro --judged --searcher random autoformer --budget 100 --seeds 50")
    ),
    "inheritance": sections.inheritance,
    "spaces": sections.spaces,
    "proxies": sections.proxies,
    "protocols": sections.protocols,
    "yields": yields,
    "calibration": sections.calibration,
    "speed": speed,
}

_PART = re.compile(r"(<!-- generated: (?P<name>[a-z-]+) -->\n)(?P<body>.*?)(<!-- end -->)", re.S)


def render(text: str, data: Path, page: str = "README.md") -> str:
    """A page's `text` with every generated part made again from the tables in `data`; page: its name, for errors.

    Raises: ValueError for an unknown part, or one that does not end.
    """
    starts, parts = text.count("<!-- generated: "), _PART.findall(text)
    if starts != len(parts) or any("<!-- generated: " in body for _, _, body, _ in parts):
        raise ValueError(f"{starts - len(parts) or 1} of {page}'s generated parts has no <!-- end -->; add it.")
    for _, name, _, _ in parts:
        if name not in SECTIONS:
            raise ValueError(f"{page} asks for {name!r}, which nothing generates; known: {', '.join(SECTIONS)}.")
    return _PART.sub(lambda part: f"{part[1]}{SECTIONS[part['name']](data)}\n{part[4]}", text)


def pages() -> list[Path]:
    """README.md, and what it leads to for more."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def main(argv: list[str] | None = None) -> int:
    """Write README.md and docs/ again, or with --check only say which of them are out of date."""
    parser = argparse.ArgumentParser(prog="python -m builders readme", description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a page is out of date")
    args = parser.parse_args(argv)
    stale = 0
    for path in pages():
        name = str(path.relative_to(ROOT))
        old = path.read_text(encoding="utf-8")
        new = render(old, ROOT / "data", name)
        stale += new != old
        if args.check:
            print(f"{name} is up to date" if new == old else f"{name} is out of date: python -m builders readme")
        elif new != old:
            with replacing(path) as beside:
                beside.write_text(new, encoding="utf-8")
    return int(args.check and stale > 0)


def _spread(values: list[float]) -> str:
    """Mean ± sample standard deviation; nothing where nothing was measured."""
    if not values:
        return "none"
    mean = f"{statistics.fmean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.1f}"


if __name__ == "__main__":
    raise SystemExit(main())
