"""Published accuracies: the three forms of file, and every way in which one can be wrong. The files are made here."""

from __future__ import annotations

import os
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

torch = pytest.importorskip("torch")

from attnbench.errors import GroundTruthError  # noqa: E402
from attnbench.nn.ground_truth import ACCURACIES, COLUMNS, MAX_BYTES, read_ground_truth  # noqa: E402
from attnbench.space.subnet import AutoFormerSubnet, PiTSubnet  # noqa: E402
from attnbench.space.subnet_cost import subnet_cost  # noqa: E402
from attnbench.space.subnet_named import SPACES  # noqa: E402
from attnbench.space.subnet_sample import sample  # noqa: E402

TINY, PIT = SPACES["autoformer-tiny"], SPACES["pit-tiny"]
HOW = "set ATTNBENCH_VIT_BENCH_101 to the folder that holds the gt_*.pth of Auto-Prox's gt_results."


def entry(subnet: AutoFormerSubnet | PiTSubnet, rank: float, fields: object = ACCURACIES) -> dict[str, object]:
    """A subnet as the files write it, with accuracies that follow from its rank."""
    if isinstance(subnet, AutoFormerSubnet):
        arch: dict[str, object] = {"hidden_dim": subnet.embed_dim, "mlp_ratio": list(subnet.mlp_ratios)}
        arch |= {"depth": subnet.depth, "num_heads": list(subnet.heads)}
    else:
        arch = {"base_dim": subnet.base_dim, "mlp_ratio": int(subnet.mlp_ratio)}
        arch |= {"depth": list(subnet.depths), "num_heads": list(subnet.heads)}
    return {"arch": arch} | {field: 50 + rank + i for i, field in enumerate(fields)}


def entries(space=TINY, n: int = 6) -> list[dict[str, object]]:
    rng = Random(0)
    return [entry(sample(space, rng), rank / 10) for rank in range(n)]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[object], Path]:
    def write(content: object) -> Path:
        torch.save(content, tmp_path / "gt.pth")
        return tmp_path / "gt.pth"

    return write


def test_autoformer_rows(write) -> None:
    rng = Random(0)
    subnets = [sample(TINY, rng) for _ in range(6)]
    frame = read_ground_truth(write(entries()))
    assert tuple(frame.columns) == COLUMNS
    assert list(frame["text"]) == [subnet.text for subnet in subnets]
    assert list(frame["key"]) == [subnet.key for subnet in subnets]
    assert set(frame["space"]) == {"autoformer-tiny"}
    costs = [subnet_cost(subnet, TINY.frame) for subnet in subnets]
    assert list(zip(frame["params"], frame["macs"], strict=True)) == costs
    assert list(frame["cifar100_base_top1_percent"]) == [50, 50.1, 50.2, 50.3, 50.4, 50.5]
    assert frame["imagenet_inherited_top1_percent"].iloc[2] == 56.2


def test_accuracies_that_were_not_measured_are_nan(write) -> None:
    missing = [row | {f: None for f in ACCURACIES if f.endswith("base_acc")} for row in entries()]
    frame = read_ground_truth(write(missing))
    assert frame["flowers_base_top1_percent"].isna().all()
    assert frame["flowers_base_top1_percent"].dtype == "float64"
    assert frame["flowers_kd_top1_percent"].notna().all()


def test_pit_rows(write) -> None:
    rng = Random(0)
    subnets = [sample(PIT, rng) for _ in range(4)]
    # The published PiT subnets have no supernet to inherit from.
    fields = [field for field in ACCURACIES if field != "imagenet_super_acc"]
    frame = read_ground_truth(write([entry(subnet, 1, fields) for subnet in subnets]))
    assert list(frame["text"]) == [subnet.text for subnet in subnets]
    assert list(frame["params"]) == [subnet_cost(subnet, PIT.frame).params for subnet in subnets]
    assert set(frame["space"]) == {"pit-tiny"}
    assert frame["imagenet_inherited_top1_percent"].isna().all()
    assert (frame["chaoyang_kd_top1_percent"] == 56).all()


def test_another_space_can_be_asked_for(write) -> None:
    path = write(entries(SPACES["autoformer-small"], 2))
    assert set(read_ground_truth(path, space=SPACES["autoformer-small"])["space"]) == {"autoformer-small"}
    with pytest.raises(GroundTruthError, match="entry 0: not in the space autoformer-tiny: embed_dim is"):
        read_ground_truth(path)


def changed(**fields: object) -> list[dict[str, object]]:
    """Good entries, the third with other fields; None takes a field out."""
    rows = entries()
    rows[2] = {name: value for name, value in (rows[2] | fields).items() if value != "gone"}
    return rows


def arch_without(name: str) -> dict[str, object]:
    arch = entries()[2]["arch"]
    assert isinstance(arch, dict)
    return {field: value for field, value in arch.items() if field != name}


WRONG = {
    "a dictionary": ({"a": 1}, r"gt\.pth holds a dict; expected a list of dictionaries"),
    "nothing": ([], "holds an empty list; expected a list"),
    "a tensor": (torch.zeros(2), "holds a Tensor; expected a list"),
    "a number": ([1.5], "entry 0 is a float; expected a dictionary with arch and accuracies"),
    "no arch": (changed(arch="gone"), r"entry 2 lacks arch; it has c100_base_acc"),
    "no accuracy": ([{"arch": entries()[0]["arch"]}], "entry 0 lacks an accuracy; it has arch"),
    "another field": (changed(mnist_acc=1.0), r"entry 2 has a field 'mnist_acc'; known: arch, c100_base_acc"),
    "a field that is missing once": (changed(c100_kd_acc="gone"), "entry 2 lacks c100_kd_acc, unlike the entries"),
    "a field that is there once": (
        [entry(TINY.largest, 1, ["c100_kd_acc"]), entry(TINY.largest, 1)],
        "entry 1 has c100_base_acc, unlike the entries",
    ),
    "no depth": (changed(arch=arch_without("depth")), "entry 2: the subnet lacks depth or layer_num; it has"),
    "no heads": (changed(arch=arch_without("num_heads")), "entry 2: the subnet lacks num_heads"),
    "an arch that is none": (changed(arch=3), "entry 2: a subnet is a text, a mapping or a tuple, got int"),
    "outside the space": (changed(arch=entries()[2]["arch"] | {"hidden_dim": 100}), "entry 2: not in the space auto"),
    "a text for a number": (changed(c100_kd_acc="77"), r"entry 2: c100_kd_acc is '77'; expected percent from 0 to 100"),
    "a truth for a number": (changed(c100_kd_acc=True), "entry 2: c100_kd_acc is True; expected percent"),
    "no percent": (changed(c100_kd_acc=100.5), "entry 2: c100_kd_acc is 100.5; expected percent"),
    "not a number": (changed(flower_kd_acc=float("nan")), "entry 2: flower_kd_acc is nan; expected percent"),
    "a huge width": (
        changed(arch=entries()[2]["arch"] | {"hidden_dim": 10**400}),
        "entry 2: embed_dim must be a whole",
    ),
    "heads in halves": (
        changed(arch=entries()[2]["arch"] | {"num_heads": torch.tensor([3.5] * 12)}),
        "entry 2: heads of layer 0 must be a whole number",
    ),
    "widths in lists": (
        changed(arch=entries()[2]["arch"] | {"hidden_dim": [[1], [2]]}),
        "entry 2: embed_dim of layer 0 must be a whole number",
    ),
    "two depths": (
        changed(arch=entries()[2]["arch"] | {"depth": torch.tensor([12, 12])}),
        "entry 2: depth must be a whole number",
    ),
    "a matrix of ratios": (
        changed(arch=entries()[2]["arch"] | {"mlp_ratio": torch.ones(12, 2)}),
        "entry 2: mlp ratio of layer 0 must be a number",
    ),
    "two families": ([*entries(), *entries(PIT)], "mixes subnets of autoformer-tiny and pit-tiny"),
}


@pytest.mark.parametrize(("content", "message"), WRONG.values(), ids=WRONG)
def test_wrong_contents_are_named(content: object, message: str, write) -> None:
    with pytest.raises(GroundTruthError, match=message):
        read_ground_truth(write(content))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(GroundTruthError, match=r"gt_pit\.pth is no file; give a gt_\*\.pth"):
        read_ground_truth(tmp_path / "gt_pit.pth")
    with pytest.raises(GroundTruthError, match="is no file"):
        read_ground_truth(tmp_path)


@pytest.mark.parametrize("legacy", [False, True])
def test_a_file_cut_short_anywhere_is_named(legacy: bool, tmp_path: Path) -> None:
    path = tmp_path / "gt.pth"
    torch.save(entries(), path, _use_new_zipfile_serialization=not legacy)
    whole = path.read_bytes()
    assert len(read_ground_truth(path)) == 6
    for kept in (0, 1, 100, len(whole) // 2, len(whole) - 30):
        path.write_bytes(whole[:kept])
        with pytest.raises(GroundTruthError, match="cannot be read: it is cut short, changed, or no such file"):
            read_ground_truth(path)


def test_noise_is_named(tmp_path: Path) -> None:
    path = tmp_path / "gt.pth"
    for content in (b"not a pickle", bytes(range(256)) * 8, b"PK\x03\x04" + bytes(100)):
        path.write_bytes(content)
        with pytest.raises(GroundTruthError, match="cannot be read: it is cut short, changed, or no such file"):
            read_ground_truth(path)


class Runs:
    """Unpickled without care, this runs a command."""

    def __init__(self, command: str):
        self.command = command

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (self.command,)


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("where", ["top", "field", "arch"])
def test_a_foreign_object_is_named_and_nothing_runs(where: str, legacy: bool, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    foreign = Runs(f"touch '{ran}'")
    content: object = {
        "top": foreign,
        "field": changed(c100_kd_acc=foreign),
        "arch": changed(arch=arch_without("depth") | {"depth": foreign}),
    }[where]
    path = tmp_path / "gt.pth"
    torch.save(content, path, _use_new_zipfile_serialization=not legacy)
    with pytest.raises(
        GroundTruthError, match=r"it holds a foreign object, posix\.system, which is not loaded"
    ) as told:
        read_ground_truth(path)
    assert "weights_only" not in str(told.value)  # torch would advise to load it all the same
    assert not ran.exists()
    # The object would have run, had it been let: the test can fail.
    subprocess.run(["sh", "-c", foreign.command], check=True)
    assert ran.exists()


def published(name: str) -> Path:
    """A file of the published folder, or the test is skipped by name."""
    path = Path(os.environ.get("ATTNBENCH_VIT_BENCH_101", "ViT-Bench-101")) / name
    if not path.is_file():
        pytest.skip(f"{path} is missing: {HOW}")
    return path


def test_the_published_autoformer_subnets() -> None:
    frame = read_ground_truth(published("gt_autoformer.pth"))
    assert (len(frame), frame["key"].nunique()) == (100, 100)
    assert frame[list(ACCURACIES.values())].notna().all(axis=None)
    means = {
        "cifar100_base": 68.82, "cifar100_kd": 77.56, "flowers_base": 53.45, "flowers_kd": 67.60,
        "chaoyang_base": 81.82, "chaoyang_kd": 84.91, "imagenet_inherited": 73.75,
    }  # fmt: skip
    for name, mean in means.items():
        assert frame[f"{name}_top1_percent"].mean() == pytest.approx(mean, abs=0.006)


@pytest.mark.parametrize("name", ["gt_autoformer_2.pth", "gt_pit.pth"])
def test_the_other_published_files(name: str) -> None:
    frame = read_ground_truth(published(name))
    assert len(frame) == 100
    assert frame["cifar100_kd_top1_percent"].notna().all()
    assert frame["cifar100_base_top1_percent"].isna().all() == (name == "gt_autoformer_2.pth")


def test_a_file_that_would_fill_the_memory_is_not_read(tmp_path: Path) -> None:
    plain, packed = tmp_path / "plain.pth", tmp_path / "packed.pth"
    with plain.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(MAX_BYTES + 1))
    assert packed.stat().st_size < MAX_BYTES / 100
    for path in (plain, packed):
        with pytest.raises(GroundTruthError, match="67,108,865 bytes, unpacked; expected a list of sub"):
            read_ground_truth(path)
