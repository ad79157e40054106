"""Files: what is damaged is named, what is written is whole, what is fetched is checked."""

import hashlib
import json
import os
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import attnbench
from attnbench.dataset import atomic, files
from attnbench.dataset.download import download, resolve
from attnbench.dataset.schema import RUNS, TABLES
from attnbench.errors import DataError
from tests.dataset.tiny import run, tables


@pytest.mark.parametrize("name", TABLES)
def test_what_is_written_is_read_again(release: Path, name: str) -> None:
    read = files.read_table(release, name, files.read_manifest(release))
    given = tables()[name]
    assert read.num_rows == len(given)
    order = lambda row: [str(row[c]) for c in TABLES[name].identity]  # noqa: E731
    assert repr(sorted(read.to_pylist(), key=order)) == repr(sorted(given, key=order))
    assert pq.read_metadata(release / f"{name}.parquet").row_group(0).column(0).compression == "ZSTD"


def test_rows_are_sorted_by_identity_and_the_file_depends_on_rows_only(release: Path, tmp_path: Path) -> None:
    shuffled = {name: rows[::-1] for name, rows in tables().items()}
    assert files.write_release(tmp_path, shuffled, "0.0-test") == files.read_manifest(release)


def test_a_release_without_a_table_reads_as_one_without_rows(release: Path) -> None:
    (release / "proxies.parquet").unlink()
    manifest = files.write_manifest(release, "0.1")
    assert files.read_table(release, "proxies", manifest).num_rows == 0


def test_a_release_of_the_first_schema_version_is_read(release: Path) -> None:
    for name in ("latency", "published"):
        (release / f"{name}.parquet").unlink()
    files.write_manifest(release, "0.1")
    damage_manifest(release, schema_version=1)
    bench = attnbench.load(release)
    assert bench.query("v").status == "stopped"
    assert len(bench.table("published")) == 0


class Killed(BaseException):
    """What no handler of ours stops."""


def killed_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the process ends before its `step`-th move of a file."""
    moves = iter(range(step))
    move = os.replace

    def limited(source: object, target: object) -> None:
        if next(moves, None) is None:
            raise Killed
        move(source, target)

    monkeypatch.setattr(files.os, "replace", limited)


# Two tables beside, the manifest that vouches for them, two tables into place, the manifest into place.
@pytest.mark.parametrize("step", range(6))
def test_a_release_whose_writing_was_killed_is_the_old_one_or_can_be_finished(
    release: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = {"runs": tables()["runs"][:1], "costs": tables()["costs"][:1]}
    with monkeypatch.context() as patched:
        killed_at(step, patched)
        with pytest.raises(Killed):
            files.write_release(release, changed, "0.2")
    if step >= 4:
        with pytest.raises(DataError, match=r"bytes, .* the next release was interrupted, `python -m builders merge`"):
            files.read_manifest(release)
    files.finish_release(release)
    manifest = files.read_manifest(release)
    assert manifest.data_version == ("0.0-test" if step < 3 else "0.2")
    assert files.read_table(release, "runs", manifest).num_rows == (12 if step < 3 else 1)
    assert sorted(path.name for path in release.iterdir()) == sorted(
        ["manifest.json", *(f"{n}.parquet" for n in TABLES)]
    )


def test_two_that_write_one_release_take_turns(release: Path) -> None:
    other = threading.Thread(target=files.write_release, args=(release, {"runs": tables()["runs"][:1]}, "0.2"))
    with atomic.only_writer(release):
        other.start()
        other.join(timeout=0.2)
        assert other.is_alive()
        assert files.read_manifest(release).data_version == "0.0-test"
    other.join()
    assert files.read_manifest(release).data_version == "0.2"


def test_without_a_version_the_one_of_the_moment_of_writing_stays(release: Path) -> None:
    files.write_release(release, {"runs": tables()["runs"]}, "0.3")
    assert files.write_release(release, {"costs": tables()["costs"]}).data_version == "0.3"
    with pytest.raises(DataError, match=r"is no data release"):
        files.write_release(release / "empty", {"costs": tables()["costs"]})


def test_half_written_files_of_a_killed_process_go(release: Path) -> None:
    (release / "..runs.parquet.next.abc.tmp").write_bytes(b"PAR")
    (release / ".runs.parquet.next").write_bytes(b"PAR1")
    files.finish_release(release)
    assert list(release.glob(".*")) == []
    assert files.read_manifest(release).data_version == "0.0-test"


def damage_manifest(release: Path, **changes: object) -> None:
    path = release / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def flip_a_byte(release: Path) -> None:
    path = release / "runs.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(release: Path) -> None:
    path = release / "runs.parquet"
    path.write_bytes(path.read_bytes()[:-100])


def list_other_columns(release: Path) -> None:
    pq.write_table(pa.table({"key": ["ag1-0"]}), release / "runs.parquet")
    content = (release / "runs.parquet").read_bytes()
    manifest = json.loads((release / "manifest.json").read_text())
    manifest["tables"]["runs"] |= {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    damage_manifest(release, tables=manifest["tables"])


def list_no_parquet(release: Path) -> None:
    (release / "runs.parquet").write_bytes(b"PAR1")
    manifest = json.loads((release / "manifest.json").read_text())
    manifest["tables"]["runs"] |= {"sha256": hashlib.sha256(b"PAR1").hexdigest(), "bytes": 4}
    damage_manifest(release, tables=manifest["tables"])


DAMAGES = {
    "no manifest": (lambda d: (d / "manifest.json").unlink(), r"is no data release: it has no manifest\.json.*Install"),
    "no JSON": (lambda d: (d / "manifest.json").write_text("{"), r"manifest\.json is no manifest \(JSONDecodeError"),
    "no version": (lambda d: (d / "manifest.json").write_text("{}"), r"is no manifest \(KeyError: 'data_version'\)"),
    "newer schema": (
        lambda d: damage_manifest(d, schema_version=3),
        r"schema version 3; .*1 and 2\. Upgrade attnbench",
    ),
    "older schema": (
        lambda d: damage_manifest(d, schema_version=0),
        r"schema version 0; .*1 and 2\. Fetch a newer data",
    ),
    "no tables": (lambda d: damage_manifest(d, tables={"runs": {}}), r"lists no usable tables \(TypeError"),
    "path in a file name": (
        lambda d: damage_manifest(d, tables={"runs": {"file": "../x", "sha256": "", "rows": 0, "bytes": 0}}),
        r"lists table 'runs' in file '\.\./x'; expected one of architectures\.parquet, ",
    ),
    "file missing": (lambda d: (d / "runs.parquet").unlink(), r"runs\.parquet is missing, though manifest\.json lists"),
    "file cut": (cut, r"runs\.parquet has \d+ bytes, manifest\.json says \d+: it was cut short or changed.*Install"),
    "byte flipped": (flip_a_byte, r"runs\.parquet was changed: its sha256 is \w+, .*attnbench verify"),
    "other columns": (list_other_columns, r"runs\.parquet has other columns than .*unexpected .*, missing .*Install"),
    "no Parquet": (list_no_parquet, r"runs\.parquet is no whole Parquet file \(.*Install"),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGES.values(), ids=DAMAGES)
def test_damage_is_named_with_the_way_out(release: Path, damage, message: str) -> None:
    damage(release)
    with pytest.raises(DataError, match=f"(?s){message}"):
        attnbench.load(release).query("v")


def test_a_table_removed_after_loading_is_named(release: Path) -> None:
    bench = attnbench.load(release)
    (release / "runs.parquet").unlink()
    with pytest.raises(DataError, match=r"runs\.parquet cannot be read: No such file"):
        bench.query("v")


REFUSED = {
    "missing column": (
        [{"seed": 1}],
        r"row 0 for runs has other columns than the schema: unknown \[\], missing \['back",
    ),
    "unknown column": ([run("v", 0, 80.0, colour="red")], r"unknown \['colour'\], missing \[\]"),
    "null": ([run("v", 0, 80.0, device=None)], r"column device of runs holds null, which the schema does not allow"),
    "type": ([run("v", 0, 80.0, seed="first")], r"rows for runs do not fit the schema: "),
}


@pytest.mark.parametrize(("rows", "message"), REFUSED.values(), ids=REFUSED)
def test_rows_that_do_not_fit_are_refused_and_nothing_is_written(tmp_path: Path, rows, message: str) -> None:
    with pytest.raises(DataError, match=message):
        files.write_table(tmp_path / "runs.parquet", rows, RUNS)
    assert list(tmp_path.iterdir()) == []


def test_a_shard_has_no_key(tmp_path: Path) -> None:
    row = run("v", 0, "stopped")
    del row["key"]
    path = tmp_path / "runs-0.parquet"
    files.write_table(path, [row], RUNS, shard=True)
    assert files.parse_table(path.read_bytes(), RUNS, "here", shard=True).to_pylist() == [row]


def test_a_broken_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def write_half() -> None:
        with atomic.replacing(path) as beside:
            beside.write_text("half")
            raise RuntimeError("power")

    with pytest.raises(RuntimeError, match="power"):
        write_half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


class TestFindData:
    def test_setting_names_the_release(self, release: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ATTNBENCH_DATA", str(release))
        assert attnbench.load().directory == release

    def test_manifest_may_be_named(self, release: Path) -> None:
        assert resolve(release / "manifest.json") == release

    def test_wheel_before_checkout(self, release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        package = tmp_path / "site" / "attnbench"
        (package / "dataset").mkdir(parents=True)
        monkeypatch.setattr(files, "__file__", str(package / "dataset" / "files.py"))
        with pytest.raises(DataError, match=r"(?s)no tables came with this attnbench: no manifest\.json in .*Install"):
            files.find_data()
        (tmp_path / "site" / "data").mkdir()
        (tmp_path / "site" / "data" / "manifest.json").touch()
        assert files.find_data() == tmp_path / "site" / "data"
        (package / "data").mkdir()
        (package / "data" / "manifest.json").touch()
        assert files.find_data() == package / "data"


class TestDownload:
    @pytest.fixture
    def cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("ATTNBENCH_CACHE", str(tmp_path / "cache"))
        return tmp_path / "cache"

    @pytest.fixture
    def mirror(self, release: Path):
        """The release behind HTTP on this machine; yields its address and the list of paths asked for."""
        asked: list[str] = []

        class Handler(SimpleHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                asked.append(self.path)

        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(release)))
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()
        server.server_close()

    def test_load_by_address_fetches_once(self, mirror, cache: Path) -> None:
        address, asked = mirror
        first = attnbench.load(f"{address}/manifest.json")
        assert first.query("v").status == "stopped"
        assert first.directory.parent == cache
        assert len(asked) == 1 + len(TABLES)
        assert attnbench.load(address).directory == first.directory
        assert len(asked) == 2 + len(TABLES)  # the manifest alone is asked for again

    def test_download_resumes_and_reports(self, release: Path, tmp_path: Path) -> None:
        told: list[str] = []
        into = download(release, tmp_path / "copy", progress=told.append)
        assert sorted(told) == sorted(f"{name}.parquet" for name in TABLES)
        flip_a_byte(into)
        told.clear()
        assert download(release.as_uri(), into, progress=told.append) == into
        assert told == ["runs.parquet"]
        assert attnbench.load(into).query("v").n_seeds == 2

    def test_the_manifest_can_be_pinned(self, release: Path, tmp_path: Path) -> None:
        right = hashlib.sha256((release / "manifest.json").read_bytes()).hexdigest()
        download(release, tmp_path / "copy", sha256=right.upper())
        with pytest.raises(DataError, match=r"manifest\.json has sha256 \w+, expected 00ff\. Ask its publisher"):
            download(release, tmp_path / "other", sha256="00FF")
        assert not (tmp_path / "other").exists()

    @pytest.mark.parametrize("damage", [flip_a_byte, cut])
    def test_a_damaged_mirror_is_refused(self, release: Path, tmp_path: Path, damage) -> None:
        damage(release)
        with pytest.raises(DataError, match=r"runs\.parquet is not what its manifest vouches for .*another mirror"):
            download(release, tmp_path / "copy")
        assert not (tmp_path / "copy" / "manifest.json").exists()

    @pytest.mark.parametrize("address", ["http://127.0.0.1:9/x", "/nowhere/at/all", "file:///nowhere", "https://[x"])
    def test_unreachable_is_said_with_the_way_out(self, address: str, cache: Path) -> None:
        with pytest.raises(
            DataError, match=r"cannot fetch .*manifest\.json: .*or name a mirror; .*attnbench\.load\(\)"
        ):
            download(address)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[" * 100_000, "is no manifest"),
        ('{"data_version": "1", "schema_version": Infinity, "tables": {}}', "is no manifest"),
        (None, "gives runs.parquet a length of '7'; expected bytes"),
    ],
)
def test_an_odd_manifest_is_named(release: Path, content: str | None, message: str) -> None:
    path = release / "manifest.json"
    if content is None:
        manifest = json.loads(path.read_text())
        manifest["tables"]["runs"]["bytes"] = "7"
        content = json.dumps(manifest)
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        attnbench.load(release)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("~nosuchuser/release", "is no path"),
        (5, "5 is no path"),
        ("x" * 5000, "cannot be read: File name too long"),
        ("http://a b/c", "cannot fetch http://a b/c/manifest.json"),
    ],
)
def test_an_odd_source_is_named(source, message: str) -> None:
    with pytest.raises(DataError, match=message):
        attnbench.load(source)


def test_a_download_into_what_is_no_folder(release: Path) -> None:
    with pytest.raises(DataError, match=r"cannot make the folder .*: File exists\. Name another one"):
        download(release, release / "manifest.json")
