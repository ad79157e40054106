"""The published figures: the known ones are there, each with its source, and the table follows from the file."""

from pathlib import Path

import pytest

from attnbench.dataset.benchmark import Benchmark
from attnbench.dataset.verify import verify
from attnbench.errors import DataError
from attnbench.space.subnet_cost import subnet_cost
from attnbench.space.subnet_named import PUBLISHED_SUBNETS, SPACES
from builders.published import figures, main
from tests.dataset import tiny

KNOWN = [
    ("DeiT-T", "softmax", "top1", 72.2),
    ("DeiT-T", "AttnZero", "top1", 74.9),
    ("DeiT-T", "Agent Attention", "top1", 74.9),
    ("PVT-T", "softmax", "top1", 75.1),
    ("PVT-T", "AttnZero", "top1", 78.1),
    ("Swin-T", "softmax", "top1", 81.3),
    ("Swin-T", "AttnZero", "top1", 82.1),
    ("CSwin-T", "softmax", "top1", 82.8),
    ("CSwin-T", "AttnZero", "top1", 82.9),
    ("TF-TAS-T", "TF-TAS", "top1", 75.3),
    ("TF-TAS-S", "TF-TAS", "top1", 81.9),
    ("TF-TAS-B", "TF-TAS", "top1", 82.2),
    ("TF-TAS-T", "TF-TAS", "search_cost", 0.5),
    ("AutoFormer-T", "AutoFormer", "search_cost", 24.0),
    ("AutoFormer-T", "AutoFormer", "top1.inherited", 74.7),
    ("AutoFormer-S", "AutoFormer", "top1.inherited", 81.7),
    ("AutoFormer-B", "AutoFormer", "top1", 82.6),
    ("autoformer-small", "classical sharing, evolution (SPOS)", "top1.inherited", 71.5),
    ("autoformer-small", "weight entanglement, evolution", "top1", 81.7),
    ("PiT-XS", "softmax", "top1", 78.1),
]
ROWS = figures()


@pytest.mark.parametrize(("model", "method", "metric", "value"), KNOWN)
def test_known_figures(model: str, method: str, metric: str, value: float) -> None:
    found = [r for r in ROWS if (r["model"], r["method"], r["metric"]) == (model, method, metric)]
    assert value in [row["value"] for row in found]
    assert all(row["source"] for row in found)


def test_counted_parameters_are_those_of_our_formula() -> None:
    counts = {row["model"]: row["value"] for row in ROWS if row["metric"] == "params"}
    assert len(counts) == 6
    for name, count in counts.items():
        published = PUBLISHED_SUBNETS[name]
        assert subnet_cost(published.subnet, SPACES[published.space].frame).params == count


def test_every_published_subnet_of_autoformers_spaces_has_an_accuracy() -> None:
    with_accuracy = {row["model"] for row in ROWS if row["metric"] == "top1"}
    assert {n for n, row in PUBLISHED_SUBNETS.items() if row.space.startswith("autoformer")} <= with_accuracy


def test_parameters_beside_an_accuracy_are_near_the_counted_ones() -> None:
    counts = {row["model"]: row["value"] for row in ROWS if row["metric"] == "params"}
    beside = [(row["params"], counts[row["model"]]) for row in ROWS if row["model"] in counts and row["params"]]
    assert len(beside) > 15
    assert all(abs(said / counted - 1) < 0.03 for said, counted in beside)


def test_the_table_follows_from_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tiny.write(tmp_path / "data")
    assert main(["--data", str(data)]) == 0
    assert f"published: {len(ROWS)} figures" in capsys.readouterr().out
    assert verify(data).ok
    bench = Benchmark(data)
    assert bench.manifest.data_version == "0.0-test"
    best = bench.sql("select max(value) as best from published where model = 'DeiT-T' and metric = 'top1'")
    assert best["best"][0] == 74.9


def test_the_release_holds_them(tables_dir: Path) -> None:
    frame = Benchmark(tables_dir).table("published")
    stored = {(r.model, r.method, r.metric, r.value, r.source) for r in frame.itertuples()}
    assert stored == {(r["model"], r["method"], r["metric"], r["value"], r["source"]) for r in ROWS}


def test_without_a_release_there_is_nothing_to_add_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(tmp_path)]) == 1
    assert "is no data release" in capsys.readouterr().err


HEAD = "model,method,dataset,image_size,metric,value,unit,params,macs,source,note\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("model,value\n", r"has columns \['model', 'value'\], expected model, method, dataset"),
        (
            HEAD + "DeiT-T,softmax,ImageNet-1k,224,top1,high,percent,,,DeiT,\n",
            "line 2: value is 'high', expected float64",
        ),
        (HEAD + "DeiT-T,softmax,ImageNet-1k,,top1,72.2,percent,,,DeiT,\n", "line 2: image_size is '', expected int32"),
        (HEAD + "DeiT-T,softmax\n", "line 2: dataset is None, expected string"),
        (HEAD + "DeiT-T,softmax,ImageNet-1k,224,top1,72.2,percent,,,DeiT,a,b\n", r"line 2 has more values .*\['b'\]"),
    ],
)
def test_a_damaged_file_is_named_with_its_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "published.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        figures(path)
