"""The command line: a thin skin over the package. Every command takes --json; libraries load when they are used."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnbench.errors import AttnBenchError

if TYPE_CHECKING:
    from rich.table import Table

    from attnbench.dataset.benchmark import Benchmark
    from attnbench.dataset.records import Result

NEEDS_NN = "measuring needs torch, which the base install leaves out: pip install 'attnbench[nn]'"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command. Returns: 0, or 1 where the answer is an error or a failed check; wrong usage exits with 2."""
    args = _parser().parse_args(argv)
    try:
        return args.run(args)
    except AttnBenchError as error:
        if args.json:
            print(json.dumps({"error": type(error).__name__, "message": str(error)}))
        else:
            print(f"attnbench {args.command}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `attnbench top | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


# -- commands


def query(args: argparse.Namespace) -> int:
    """What was measured of one architecture: mean, spread, every run, costs, scores."""
    result = _load(args).query(args.arch, backbone=args.backbone, protocol=args.protocol, seed=args.seed)
    if args.json:
        return _print_json(result.as_dict())
    _print(*_result_lines(result), _runs_table(result))
    return 0


def top(args: argparse.Namespace) -> int:
    """The best architectures by mean validation accuracy; test is shown and never selects."""
    results = _load(args).top(
        args.n,
        backbone=args.backbone,
        protocol=args.protocol,
        sound=args.sound,
        named=args.named,
        min_seeds=args.min_seeds,
    )
    if args.json:
        return _print_json([result.as_dict() for result in results])
    table = _table(
        f"best by validation on {args.backbone}, {args.protocol}",
        (">", ("val top-1 %", ">"), ("test %", ">"), ("seeds", ">"), "status", ("MACs", ">"), "architecture"),
    )
    for place, r in enumerate(results, 1):
        measured = (_spread(r), _percent(r.test_top1_percent), str(r.n_seeds), r.status)
        table.add_row(str(place), *measured, _count(r.macs), _described(r))
    _print(table)
    return 0


def sql(args: argparse.Namespace) -> int:
    """One SELECT over the tables, in a database that reaches nothing else."""
    frame = _load(args).sql(args.statement)
    if args.json:
        print(frame.to_json(orient="records"))
        return 0
    table = _table("", tuple(frame.columns))
    for row in frame.head(args.limit).itertuples(index=False):
        table.add_row(*("" if value is None else str(value) for value in row))
    _print(table)
    if len(frame) > args.limit:
        _print(f"{len(frame) - args.limit:,} more rows: --limit {len(frame)}, or --json for all")
    return 0


def verify(args: argparse.Namespace) -> int:
    """Whether the tables are whole: checksums, schema, rows, keys derived again from formulas, rules of a run."""
    from attnbench.dataset.download import resolve
    from attnbench.dataset.verify import verify as verify_release

    report = verify_release(resolve(args.data))
    if args.json:
        problems = [{"table": p.table, "rule": p.rule, "message": p.message} for p in report.problems]
        head = {"directory": report.directory, "data_version": report.data_version, "ok": report.ok}
        _print_json({**head, "rows": dict(report.rows), "problems": problems})
        return 0 if report.ok else 1
    table = _table(f"data {report.data_version} in {report.directory}", ("table", ("rows", ">"), "problems"))
    for name in dict.fromkeys([*report.rows, *(p.table for p in report.problems)]):
        found = [f"{p.rule}: {p.message}" for p in report.problems if p.table == name]
        table.add_row(name, _count(report.rows.get(name)), "\n".join(found) or "none")
    _print(table)
    return 0 if report.ok else 1


def download(args: argparse.Namespace) -> int:
    """Fetches a data release and checks every file; then `load(directory)` or --data reads it."""
    from attnbench.dataset.download import download as fetch

    told = None if args.json else lambda file: print(f"fetching {file}", file=sys.stderr)
    directory = fetch(args.address, args.into, sha256=args.sha256, progress=told)
    if args.json:
        return _print_json({"directory": str(directory)})
    print(directory)
    return 0


# -- the parser


def _parser() -> argparse.ArgumentParser:
    from attnbench import __version__

    parser = argparse.ArgumentParser(
        prog="attnbench",
        description="Measured attention variants, looked up by formula.",
        epilog='example: attnbench query "softmax(q) @ (softmax(k, axis=-2).T @ v)"',
    )
    parser.add_argument("--version", action="version", version=f"attnbench {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")

    def add(run: Callable[[argparse.Namespace], int], *, data: bool = True, backbone: bool = False) -> Any:
        summary = (run.__doc__ or "").strip()
        command = commands.add_parser(run.__name__, help=summary, description=summary)
        command.set_defaults(run=run)
        command.add_argument("--json", action="store_true", help="print JSON")
        if data:
            command.add_argument("--data", metavar="PATH|URL", help="another data release than the package's own")
        if backbone:
            command.add_argument("--backbone", default="deit", help="default: deit")
            command.add_argument("--protocol", default="fmnist-micro", help="default: fmnist-micro")
        return command

    command = add(query, backbone=True)
    command.add_argument("arch", help="a formula, a name, or a key")
    command.add_argument("--seed", type=int, help="one seed's run; default: the mean over all")

    command = add(top, backbone=True)
    command.add_argument("-n", type=int, default=10, help="how many; default: 10")
    command.add_argument("--sound", action="store_true", help="only graphs that pass every check (linear, …)")
    command.add_argument("--named", action="store_true", help="only published formulas and controls")
    command.add_argument("--min-seeds", type=int, default=1, help="only with at least so many runs; default: 1")

    command = add(sql)
    command.add_argument("statement", help="a SELECT; the tables are listed by `attnbench sql 'show tables'`")
    command.add_argument("--limit", type=int, default=50, help="rows shown; default: 50")

    add(verify)

    command = add(download, data=False)
    command.add_argument("address", metavar="PATH|URL", help="a release: the address of its manifest.json or folder")
    command.add_argument("--into", type=Path, help="default: a folder of the cache, named by the content")
    command.add_argument("--sha256", help="of manifest.json, which vouches for all files")
    return parser


def _load(args: argparse.Namespace) -> Benchmark:
    from attnbench.dataset.benchmark import load

    return load(args.data)


# -- what is printed


def _print_json(value: Any) -> int:
    print(json.dumps(value, ensure_ascii=False, allow_nan=False))
    return 0


def _print(*parts: Any) -> None:
    from rich.console import Console

    # No markup: formulas hold brackets. No highlighting: numbers in formulas are no results.
    console = Console(markup=False, highlight=False)
    for part in parts:
        console.print(part)


def _table(title: str, columns: Sequence[str | tuple[str, str]]) -> Table:
    """An empty table; a column is its heading, or heading and ">" for numbers."""
    from rich import box
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        heading, align = column if isinstance(column, tuple) else ("", ">") if column == ">" else (column, "")
        table.add_column(heading, justify="right" if align == ">" else "left", no_wrap=align == ">", overflow="fold")
    return table


def _result_lines(result: Result) -> list[str]:
    seeds = f"{result.n_seeds} seed{'s' * (result.n_seeds != 1)}"
    lines = [
        *([", ".join(result.names)] if result.names else []),
        result.text,
        result.key,
        "",
        f"{result.backbone}, {result.protocol}: validation top-1 {_spread(result)} %, test "
        f"{_percent(result.test_top1_percent)} %, {seeds}, status {result.status}",
        f"parameters {_count(result.params)}, multiply-adds {_count(result.macs)}, "
        f"step {'-' if result.step_ms is None else f'{result.step_ms:.2f} ms'}",
    ]
    if result.status == "diverged":
        lines.append("a diverged run counts as chance in validation")
    if result.proxies:
        lines.append("scores " + ", ".join(f"{name} {value:.4g}" for name, value in result.proxies.items()))
    return lines


def _runs_table(result: Result) -> Table:
    columns = (("seed", ">"), "status", "validation top-1 % after each epoch", ("test %", ">"), ("train s", ">"))
    table = _table("", columns)
    for run in result.runs:
        curve = " ".join(f"{value:.1f}" for value in run.val_curve)
        seconds = f"{run.train_seconds:.1f}"
        table.add_row(str(run.seed), run.status, curve, _percent(run.test_top1_percent), seconds)
    return table


def _described(result: Result) -> str:
    return f"{result.names[0]}: {result.text}" if result.names else result.text


def _spread(result: Result) -> str:
    spread = result.val_top1_sd_percent
    return f"{result.val_top1_percent:.2f}" + ("" if spread is None else f" ± {spread:.2f}")


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


if __name__ == "__main__":
    sys.exit(main())
