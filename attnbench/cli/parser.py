"""Which commands there are, what they take, and what becomes of errors."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attnbench.cli.live import measure
from attnbench.cli.lookup import query, sql, top
from attnbench.cli.options import device, positive, whole
from attnbench.cli.release import download, verify
from attnbench.cli.searches import GRID, search
from attnbench.cli.studies import plot, tau, transfer
from attnbench.cli.subnets import groundtruth, scoring_options, tftas
from attnbench.cli.windows import WINDOW_HELP
from attnbench.dataset.schema import INHERITED_PROTOCOLS
from attnbench.errors import AttnBenchError


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command. Returns: 0, or 1 where the answer is an error or a failed check; wrong usage exits with 2."""
    args = _parser().parse_args(argv)
    try:
        return args.run(args)
    except BrokenPipeError:  # `attnbench top | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (AttnBenchError, OSError, ValueError) as error:  # an option or a file that is refused, with its reason
        if args.json:
            print(json.dumps({"error": type(error).__name__, "message": str(error)}))
        else:
            print(f"attnbench {args.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


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
            of_subnets = "; a subnet's is {}" if run is not search else ""
            command.add_argument(
                "--backbone", help="default: deit" + of_subnets.format("its space, e.g. autoformer-micro")
            )
            command.add_argument("--protocol", help="default: fmnist-micro" + of_subnets.format("micro-scratch"))
        return command

    command = add(query, backbone=True)
    command.add_argument("arch", help="a formula, a subnet such as autoformer(…), a name, or a key")
    command.add_argument("--seed", type=whole, help="one seed's run; default: the mean over all")

    command = add(top, backbone=True)
    command.set_defaults(backbone="deit")
    command.add_argument("-n", type=positive, default=10, help="how many; default: 10")
    command.add_argument("--sound", action="store_true", help="only graphs that pass every check (linear, …)")
    command.add_argument("--named", action="store_true", help="only published formulas and controls")
    command.add_argument("--min-seeds", type=whole, default=1, help="only with at least so many runs; default: 1")

    command = add(sql)
    command.add_argument("statement", help="a SELECT; the tables are listed by `attnbench sql 'show tables'`")
    command.add_argument("--limit", type=positive, default=50, help="rows shown; default: 50")

    command = add(measure, data=False, backbone=True)
    command.add_argument("formula", help="over q, k and v, or a subnet such as autoformer(…)")
    command.add_argument("--seed", type=whole, default=0, help="initial weights and order of the data; default: 0")
    command.add_argument("--device", type=device, default="cpu", help="default: cpu, as the published rows")
    command.add_argument("--dataset", type=Path, metavar="DIR", help="folder of Fashion-MNIST's four .gz files")

    command = add(tau, backbone=True)
    _ranking_options(command)

    command = add(transfer)
    command.add_argument("--backbone", action="append", help="only this one; repeat for two or more; default: all")
    command.add_argument("--protocol", default="fmnist-micro", help="default: fmnist-micro")
    command.add_argument("--all", action="store_true", help="also graphs that fail a check, which flatters")
    _resamples(command)

    command = add(search, backbone=True)
    _search_options(command)
    command.add_argument("--plot", metavar="FILE", help="also draw regret over the budget spent")

    command = add(plot, backbone=True)
    command.add_argument("what", help="ranks, search, or a proxy's name")
    command.add_argument("file", help="figure to write; its ending is the format: .png, .pdf, .svg")
    _ranking_options(command.add_argument_group("ranks and proxies"))
    _search_options(command.add_argument_group("search"))

    command = add(groundtruth, data=False)
    command.add_argument(
        "path", nargs="?", help="a gt_*.pth file; default: gt_autoformer.pth in $ATTNBENCH_VIT_BENCH_101"
    )
    command.add_argument(
        "--proxy", action="append", help="repeat for several, or all; default: dss and synflow, beside params and macs"
    )
    command.add_argument("--limit", type=positive, metavar="N", help="the first N subnets only")
    command.add_argument("--given", choices=("params", "macs"), default="params", help="held fixed; default: params")
    _resamples(command)
    scoring_options(command)

    command = add(tftas, data=False)
    command.add_argument("space", help="such as autoformer-tiny or pit-xs")
    command.add_argument("--proxy", default="dss", help="default: dss")
    command.add_argument("-n", type=positive, default=8000, help="random subnets to score; default: 8000")
    command.add_argument("--window", metavar="MIN-MAX", help=f"{WINDOW_HELP}; default: TF-TAS's for the space")
    command.add_argument("--seed", type=whole, default=0, help="of the draws; default: 0")
    scoring_options(command)

    add(verify)

    command = add(download, data=False)
    command.add_argument("address", metavar="PATH|URL", help="a release: the address of its manifest.json or folder")
    command.add_argument("--into", type=Path, help="default: a folder of the cache, named by the content")
    command.add_argument("--sha256", help="of manifest.json, which vouches for all files")
    return parser


def _ranking_options(command: Any) -> None:
    command.add_argument("--proxy", action="append", help="only this one; repeat for several; default: all but parts")
    command.add_argument("--given", help="cost that the partial tau holds fixed; default: macs, of subnets params")
    command.add_argument("--weight-seed", type=whole, default=0, help="initial weights that were scored; default: 0")
    _resamples(command)


def _resamples(command: Any) -> None:
    command.add_argument(
        "--resamples", type=whole, default=1000, help="of the bootstrap; 0: no interval; default: 1000"
    )


def _search_options(command: Any) -> None:
    command.add_argument("--space", default=GRID, help="what is searched: grid, or a space of subnets; default: grid")
    command.add_argument("--window", metavar="MIN-MAX", help=f"for subnets, {WINDOW_HELP}; default: none")
    command.add_argument("--judged", action="store_true", help="for subnets, only those trained from scratch too")
    command.add_argument(
        "--inherited",
        choices=INHERITED_PROTOCOLS,
        help=f"for subnets, whose accuracies searchers see; default: {INHERITED_PROTOCOLS[0]}",
    )
    command.add_argument("--searcher", nargs="+", default=["random", "evolution"], help="default: random evolution")
    command.add_argument("--budget", type=float, default=200, help="of one search; default: 200")
    command.add_argument("--unit", choices=("evaluations", "seconds"), default="evaluations", help="of the budget")
    command.add_argument("--seeds", type=positive, default=20, help="how many searches each; default: 20")
    command.add_argument("--shown-seed", type=whole, default=0, help="training seed that searchers see; default: 0")
    command.add_argument(
        "--repeat-price", type=float, default=0.0, help="share of the price of asking again; default: 0"
    )
