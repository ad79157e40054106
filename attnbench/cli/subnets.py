"""Commands on subnets: groundtruth, tftas. They score networks, and so need torch; scores are kept in a log."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from attnbench.cli.extras import needs_torch
from attnbench.cli.options import positive, whole
from attnbench.cli.show import count, number, plural, show, show_json, show_table, text
from attnbench.cli.studies import interval_text, remarks_of
from attnbench.cli.windows import window_of

if TYPE_CHECKING:
    import pandas as pd

    from attnbench.nn.subnet_scores import Scoring, SubnetScorer, Weights
    from attnbench.search.subnets import SubnetCandidates
    from attnbench.search.tf_tas import ProxySearch, ScoredSubnet
    from attnbench.space.subnet_spaces import SubnetSpace

FOLDER_SETTING = "ATTNBENCH_VIT_BENCH_101"
COSTS = ("params", "macs")


def groundtruth(args: argparse.Namespace) -> int:
    """How proxies rank ViT-Bench-101's published accuracies of 100 subnets, beside params and macs."""
    with needs_torch("scoring subnets"):
        from attnbench.nn.ground_truth import read_ground_truth
        from attnbench.nn.subnet_scores import columns_of_proxies
    from attnbench.analysis.proxies import rank_columns
    from attnbench.space.subnet_named import SPACES
    from attnbench.space.subnet_text import parse_subnet

    path = _published(args.path)
    scores = columns_of_proxies([*(args.proxy or ["dss", "synflow"]), *COSTS])
    frame = read_ground_truth(path).head(args.limit)
    scorer = _scorer(SPACES[frame["space"].iloc[0]], args)
    columns = [name for name in scores if name not in COSTS]
    subnets = [parse_subnet(spelling) for spelling in frame["text"]]
    n_new = sum(not all(scorer.is_known(subnet, name) for name in columns) for subnet in subnets)
    with _progress(f"scoring {plural(n_new, 'subnet')}", len(subnets), quiet=args.json or not n_new) as step:
        for subnet, row in zip(subnets, frame.index, strict=True):
            for name, value in scorer(subnet, columns).items():
                frame.loc[row, name] = math.nan if value is None else value
            step()
    accuracies = [name for name in frame.columns if name.endswith("_top1_percent")]
    ranks = rank_columns(frame, scores, [*accuracies, args.given], covariate=args.given, n_resamples=args.resamples)
    if args.json:
        return show_json(ranks.to_dict("records"))
    _show_ranks(ranks, frame, scorer.scoring, args)
    return 0


def tftas(args: argparse.Namespace) -> int:
    """TF-TAS's search: the best by a proxy of many random subnets of a space, inside a parameter window."""
    from attnbench.search.subnets import SubnetCandidates, published_window
    from attnbench.search.tf_tas import search_by_proxy
    from attnbench.space.subnet_named import SPACES

    if args.space not in SPACES:
        raise ValueError(f"there is no space {args.space!r}; choose one of {', '.join(SPACES)}.")
    window = published_window(args.space, of="tf-tas") if args.window is None else window_of(args.window)
    candidates = SubnetCandidates(SPACES[args.space], window=window)
    with needs_torch("scoring subnets"):
        from attnbench.nn.subnet_scores import columns_of_proxies
    columns = columns_of_proxies([args.proxy])
    if len(columns) > 1:
        raise ValueError(f"{args.proxy} is several scores; a search follows one of {', '.join(columns)}.")
    ((column, direction),) = columns.items()
    scorer = _scorer(candidates.space, args)
    with _progress("scoring", args.n, quiet=args.json) as step:
        found = search_by_proxy(
            candidates,
            lambda subnet: scorer(subnet, [column])[column],
            Random(args.seed),
            n=args.n,
            direction=direction,
            progress=step,
        )
    facts = _facts(found, direction)
    if args.json:
        scoring = scorer.scoring
        head = {"space": args.space, "proxy": column, "direction": direction, "window": candidates.window}
        how = {"weights": scoring.weights, "weight_seed": scoring.weight_seed, "precision": scoring.precision}
        seen = {"images": scoring.images, "n_images": scoring.n_images, "seed": args.seed}
        return show_json({**head, **how, **seen, **facts, "candidates": list(map(_row, found.candidates))})
    _show_search(found, facts, candidates, column, args)
    return 0


def scoring_options(command: Any) -> None:
    """The options that both commands share."""
    command.add_argument(
        "--weights",
        choices=("own", "shared"),
        help="initial weights: each subnet's own, or, as in TF-TAS's code, slices of one supernet's, so that no score "
        "owes anything to a luckier draw; default: shared, for PiT own",
    )
    command.add_argument("--weight-seed", type=whole, default=0, help="of the initial weights; default: 0")
    command.add_argument(
        "--images",
        choices=("noise", "fashion-mnist"),
        default="noise",
        help="what proxies that need images look at; default: noise",
    )
    command.add_argument("--n-images", type=positive, default=32, help="how many of them; default: 32")
    command.add_argument("--dataset", type=Path, metavar="DIR", help="folder of Fashion-MNIST's four .gz files")
    command.add_argument("--precision", choices=("float64", "float32"), default="float64", help="default: float64")
    command.add_argument(
        "--scores", type=Path, metavar="FILE", help="log of scores, read and added to; default: one in the cache"
    )


def _published(given: str | None) -> Path:
    if given is not None:
        return Path(given)
    folder = os.environ.get(FOLDER_SETTING)
    if not folder:
        raise ValueError(
            f"no file was given: pass the path of a gt_*.pth of Auto-Prox's gt_results, or set {FOLDER_SETTING} to "
            "the folder that holds gt_autoformer.pth."
        )
    return Path(folder) / "gt_autoformer.pth"


def _scorer(space: SubnetSpace, args: argparse.Namespace) -> SubnetScorer:
    from attnbench import __version__
    from attnbench.dataset.download import cache_directory
    from attnbench.dataset.score_log import ScoreLog
    from attnbench.nn.subnet_scores import Scoring, SubnetScorer
    from attnbench.space.subnet_spaces import AutoFormerSpace

    has_supernet = isinstance(space, AutoFormerSpace)
    if args.weights == "shared" and not has_supernet:
        raise ValueError(f"--weights shared needs a supernet, which {space.name} has none of; pass --weights own.")
    weights: Weights = args.weights or ("shared" if has_supernet else "own")
    scoring = Scoring(
        space,
        weights=weights,
        weight_seed=args.weight_seed,
        images=args.images,
        precision=args.precision,
        n_images=args.n_images,
    )
    log = ScoreLog(args.scores or cache_directory() / "scores.jsonl")
    return SubnetScorer(scoring, log, dataset=args.dataset, code_version=__version__)


@contextmanager
def _progress(what: str, total: int, *, quiet: bool) -> Iterator[Callable[[], None]]:
    """A progress bar on the terminal's stderr, and what moves it on."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=quiet or not console.is_terminal) as progress:
        bar = progress.add_task(what, total=total)
        yield lambda: progress.advance(bar)


def _show_ranks(ranks: pd.DataFrame, frame: pd.DataFrame, scoring: Scoring, args: argparse.Namespace) -> None:
    interval = "95 % bootstrap intervals" if args.resamples else "no intervals"
    show(
        f"Kendall's tau of {plural(len(frame), 'subnet')} of {frame['space'].iloc[0]} ({interval})",
        f"weights: {scoring.weights}, seed {scoring.weight_seed}, {scoring.precision}; images, where a proxy looks at "
        f"some: {scoring.n_images} of {scoring.images}",
        "",
    )
    headings = ("n", "tau", f"tau given {args.given}", f"tau within 5 % of {args.given}", "top tenth")
    columns = [text("score"), *map(number, headings)]
    statistics = ("tau", "partial_tau", "banded_tau", "top_overlap")
    for accuracy, rows in ranks.groupby("accuracy", sort=False):
        name = str(accuracy)
        title = f"with {name}"
        if name != args.given:
            values = frame[name]
            title = f"with {name.removesuffix('_top1_percent')} ({values.min():.1f} to {values.max():.1f} %)"
        others = [row for row in rows.to_dict("records") if row["score"] != name]
        cells = [
            (row["score"], count(row["n"]), *(interval_text(row, statistic) for statistic in statistics))
            for row in others
        ]
        show_table(title, columns, cells)
        show(*remarks_of(others, args.given, column="score"), "")
    show("top tenth: overlap of the best tenth by score and by accuracy; chance is 0.1")


def _facts(found: ProxySearch, direction: str) -> dict[str, Any]:
    """The best, and the control beside it: the largest candidate, and how much the score is a count of parameters."""
    from attnbench.analysis.rank import kendall_tau

    tau = kendall_tau(
        [candidate.score for candidate in found.candidates],
        [candidate.params for candidate in found.candidates],
        direction=direction,  # type: ignore[arg-type]
        n_resamples=0,
    )
    return {
        "n": len(found.candidates),
        "n_wanted": found.n_wanted,
        "n_without_score": sum(candidate.score is None for candidate in found.candidates),
        "best": None if found.best is None else _row(found.best),
        "largest": _row(found.largest),
        "tau_with_params": tau.value,
    }


def _show_search(
    found: ProxySearch, facts: dict[str, Any], candidates: SubnetCandidates, column: str, args: argparse.Namespace
) -> None:
    window = candidates.window
    bounds = "of any size" if window is None else f"of {window.min_params:,} to {window.max_params:,} parameters"
    show(f"{plural(facts['n'], 'random subnet')} of {args.space} {bounds}, seed {args.seed}, by {column}")
    if window is not None and not candidates.window_binds:
        show("the window leaves no subnet of the space out")
    if facts["n"] < facts["n_wanted"]:
        show(f"the window holds no more; {facts['n_wanted']:,} were wanted")
    if facts["n_without_score"]:
        show(f"{plural(facts['n_without_score'], 'subnet')} without a finite score")
    rows = [(name, facts[name]) for name in ("best", "largest") if facts[name] is not None]
    cells = [
        (name, "-" if row["score"] is None else f"{row['score']:.6g}", count(row["params"]), row["text"])
        for name, row in rows
    ]
    show("")
    show_table("", ("", number(column), number("params"), text("subnet")), cells)
    if facts["tau_with_params"] is not None:
        show("", f"Kendall's tau of {column} and params over the candidates: {facts['tau_with_params']:.2f}")


def _row(candidate: ScoredSubnet) -> dict[str, Any]:
    subnet = candidate.subnet
    return {"key": subnet.key, "text": subnet.text, "score": candidate.score, "params": candidate.params}
