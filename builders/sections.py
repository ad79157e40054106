"""Parts of the documentation on subnets, proxies and protocols; what a release does not hold yet, a part says."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import attnbench
from attnbench.dataset.schema import DEFAULT_BACKBONE, DEFAULT_PROTOCOL
from attnbench.space.subnet_named import PARAM_WINDOWS, PUBLISHED_SUBNETS, SPACES
from attnbench.space.subnet_spaces import AutoFormerSpace, SubnetSpace

Section = Callable[[Path], str]


def where_measured(space: str, *protocols: str) -> Callable[[Section], Section]:
    """What a section shows once the release has runs of each protocol in the space; until then, what is missing."""

    def guarded(show: Section) -> Section:
        def section(data: Path) -> str:
            found = attnbench.load(data).sql("select distinct protocol from runs where backbone = ?", [space])
            lacking = [f"`{name}`" for name in protocols if name not in set(found["protocol"])]
            if lacking:
                version = attnbench.load(data).manifest.data_version
                return f"To be filled in: data {version} holds no runs of {_and(lacking)} yet."
            return show(data)

        return section

    return guarded


def inheritance(data: Path) -> str:
    """How supernets of either sharing rank subnets, or why this release cannot say so."""
    from builders.inheritance import table

    try:
        return table(data)
    except ValueError as error:  # too few rows
        return f"To be filled in once runs of all three protocols are released ({str(error).rstrip('.')})."


@cache
def _ranks(data: Path, backbone: str, protocol: str, given: str) -> Any:
    from attnbench.cli.studies import proxy_ranks_of

    return proxy_ranks_of(attnbench.load(data), backbone=backbone, protocol=protocol, covariate=given)


def tau(
    data: Path,
    only: str | None = None,
    backbone: str = DEFAULT_BACKBONE,
    protocol: str = DEFAULT_PROTOCOL["attention"],
    given: str = "macs",
) -> str:
    """Kendall's tau of each proxy in the three populations, or in one, with its interval, n, and the ceiling."""
    from attnbench.cli.studies import ceiling_text, interval_text, members_of, title_of

    ranks = _ranks(data, backbone, protocol, given)
    lines = [
        f"| {members_of(backbone)} | proxy | n | τ | τ given {given} | top tenth |",
        "|---|---|---:|---:|---:|---:|",
    ]
    ceilings = []
    for population, rows in ranks.groupby("population", sort=False):
        if only not in (None, population):
            continue
        records = rows.to_dict("records")
        for row in records:
            if row["proxy"] == "params" and row["note"].startswith("kendall") and "constant" in row["note"]:
                continue  # attention variants have no weights of their own: every graph has as many parameters
            lines.append(
                f"| {population} | {row['proxy']} | {row['n']:,} | {interval_text(row, 'tau')} "
                f"| {interval_text(row, 'partial_tau')} | {interval_text(row, 'top_overlap')} |"
            )
        ceilings.append(f"- ceiling, {title_of(str(population), backbone)}: {ceiling_text(records[0])}")
    return "\n".join([*lines, "", *ceilings])


def transfer(data: Path) -> str:
    """Kendall's tau between the accuracies on every two backbones, over sound graphs, beside what noise allows."""
    from attnbench.cli.studies import transfer_cells, transfer_ranks_of

    lines = [
        "| measured on | used on | graphs | τ | τ if they agree | top tenth | regret, points | of random |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    ranks = transfer_ranks_of(attnbench.load(data))
    lines += [f"| {' | '.join(transfer_cells(row))} |" for row in ranks.to_dict("records")]
    return "\n".join(lines)


def size(data: Path) -> str:
    """How far each score of stored subnets is a count of their parameters or multiply-adds."""
    from attnbench.analysis.rank import kendall_tau

    frame = attnbench.load(data).sql(
        """
        select p.backbone, p.proxy, p.value, c.params, c.macs
        from proxies p join costs c using (key, backbone)
        where p.key like 'sn1-%' and p.weight_seed = 0 and p.value is not null
        """
    )
    spaces = sorted(set(frame["backbone"]))
    lines = [
        "| proxy |" + "".join(f" `{name}`: n | τ with parameters | τ with multiply-adds |" for name in spaces),
        "|---|" + "---:|" * 3 * len(spaces),
    ]
    for proxy, of_proxy in frame.groupby("proxy"):
        cells = []
        for name in spaces:
            rows = of_proxy[of_proxy["backbone"] == name]
            found = [kendall_tau(rows["value"], rows[cost], n_resamples=0).value for cost in ("params", "macs")]
            cells += [f"{len(rows):,}", *("-" if value is None else f"{value:.2f}" for value in found)]
        lines.append(f"| {proxy} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def spaces(data: Path) -> str:
    """The spaces of subnets: what is chosen, how many there are, where they were searched, which are published."""
    lines = [
        "| space | subnets | width | depth | heads | MLP ratio | window of parameters | published subnets |",
        "|---|---:|---|---|---|---|---|---|",
    ]
    for space in SPACES.values():
        window = PARAM_WINDOWS.get(space.name.removeprefix("autoformer-").removesuffix("-released"))
        bounds = f"{window.min_params / 1e6:g} to {window.max_params / 1e6:g} M" if _is_full(space) and window else ""
        named = ", ".join(row.name for row in PUBLISHED_SUBNETS.values() if row.space == space.name)
        lines.append(f"| `{space.name}` | {_size(space.size)} | {' | '.join(_choices(space))} | {bounds} | {named} |")
    return "\n".join(lines)


def proxies(data: Path) -> str:
    """The proxies of the registry: their columns, which end of each is better, and what they look at."""
    from attnbench.nn.proxies.registry import PROXIES

    lines = ["| proxy | better | looks at | source |", "|---|---|---|---|"]
    for proxy in PROXIES.values():
        looks_at = "nothing" if proxy.data == "none" else proxy.data
        for direction in dict.fromkeys(proxy.columns.values()):
            first, *others = (name for name, better in proxy.columns.items() if better == direction)
            names = ", ".join([f"`{first}`", *(f"`{name.removeprefix(proxy.name)}`" for name in others)])
            lines.append(f"| {names} | {direction} | {looks_at} | {proxy.source} |")
    return "\n".join(lines)


def protocols(data: Path) -> str:
    """The protocols of full backbones: data, images, steps, and which backbones each is written for."""
    from attnbench.nn.datasets import SOURCES
    from attnbench.nn.recipes import RECIPE_CHANGES, RECIPES, full_recipe

    lines = [
        "| protocol | data set | training, validation, test images | epochs | images a step | backbones |",
        "|---|---|---|---|---|---|",
    ]
    for name, recipe in RECIPES.items():
        source = SOURCES[recipe.dataset]
        n_val = recipe.n_val_per_class * source.n_classes
        images = f"{source.n_train - n_val:,}, {n_val:,}, {source.n_test:,}"
        made = [full_recipe(name, backbone)[0] for backbone in RECIPE_CHANGES[name]]
        epochs = _range({one.n_epochs for one in made})
        batch = _range({one.batch_size for one in made})
        backbones = ", ".join(RECIPE_CHANGES[name])
        lines.append(
            f"| `{name}` | [{recipe.dataset}]({source.address}) | {images} | {epochs} | {batch} | {backbones} |"
        )
    return "\n".join(lines)


def calibration(data: Path) -> str:
    """The verdict on each backbone, out of the pages that `benchmarks/calibration.py` wrote."""
    pages = sorted(data.glob("calibration-*.md"))
    if not pages:
        return "No page is written yet: `python benchmarks/calibration.py --out data/calibration-deit.md`."
    parts = []
    for page in pages:
        name = page.stem.removeprefix("calibration-")
        _, *lines = page.read_text(encoding="utf-8").splitlines()
        # A page without a verdict says in its first lines why.
        verdict = [line for line in lines if line.startswith("- ")] or lines[1 : lines.index("", 1)]
        # The page that shows this lies in docs/.
        parts.append(
            "\n".join([f"`{name}`, every graph's row in [data/{page.name}](../data/{page.name}):", "", *verdict])
        )
    return "\n\n".join(parts)


def _choices(space: SubnetSpace) -> tuple[str, str, str, str]:
    if isinstance(space, AutoFormerSpace):
        return (
            _listed(space.embed_dims),
            _listed(space.depths),
            f"{_listed(space.heads)} in each layer, of {space.head_dim}",
            f"{_listed(space.mlp_ratios)} in each layer",
        )
    depths = " / ".join(_listed(choices) for choices in space.depths)
    heads = f"{_listed(space.heads)} in each stage, each a multiple of the one before"
    return f"{_listed(space.base_dims)} a head", f"{depths} a stage", heads, _listed(space.mlp_ratios)


def _is_full(space: SubnetSpace) -> bool:
    return not space.name.endswith("-micro")


def _listed(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _size(n: int) -> str:
    return f"{n:,}" if n < 1_000_000 else f"{n:.1e}".replace("e+0", "e").replace("e+", "e")


def _range(values: set[int]) -> str:
    return f"{min(values):,}" if len(values) == 1 else f"{min(values):,} to {max(values):,}"


def _and(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
