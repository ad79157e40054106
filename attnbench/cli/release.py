"""Commands on the tables' files: verify, download."""

from __future__ import annotations

import argparse
import sys

from attnbench.cli.show import count, number, plural, show, show_json, show_table


def verify(args: argparse.Namespace) -> int:
    """Whether the tables are whole: checksums, schema, rows, keys derived again from formulas, rules of a run."""
    from attnbench.dataset.download import resolve
    from attnbench.dataset.verify import verify as verify_release

    report = verify_release(resolve(args.data))
    if args.json:
        problems = [{"table": p.table, "rule": p.rule, "message": p.message} for p in report.problems]
        head = {"directory": report.directory, "data_version": report.data_version, "ok": report.ok}
        show_json({**head, "rows": dict(report.rows), "problems": problems})
        return 0 if report.ok else 1
    rows = []
    for name in dict.fromkeys([*report.rows, *(p.table for p in report.problems)]):
        n_problems = sum(p.table == name for p in report.problems)
        rows.append((name, count(report.rows.get(name)), "none" if not n_problems else count(n_problems)))
    show_table(f"data {report.data_version} in {report.directory}", ("table", number("rows"), number("problems")), rows)
    show(*(f"{p.table}, {p.rule}: {p.message}" for p in report.problems))
    show("all is well" if report.ok else plural(len(report.problems), "problem"))
    return 0 if report.ok else 1


def download(args: argparse.Namespace) -> int:
    """Fetches a data release and checks every file; then `load(directory)` or --data reads it."""
    from attnbench.dataset.download import download as fetch

    told = None if args.json else lambda file: print(f"fetching {file}", file=sys.stderr)
    directory = fetch(args.address, args.into, sha256=args.sha256, progress=told)
    if args.json:
        return show_json({"directory": str(directory)})
    print(directory)
    return 0
