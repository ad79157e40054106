"""The log of scores: remembered between processes, whatever a kill or another program left in the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnbench.dataset.score_log import LoggedScore, ScoreLog
from attnbench.errors import DataError

ONE = {"key": "sn1-0", "proxy": "dss", "weight_seed": 0, "images": None}


def test_a_score_is_remembered(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "scores.jsonl"
    log = ScoreLog(path)
    assert (log.get(ONE), len(log)) == (None, 0)
    assert not path.exists()  # reading makes nothing
    log.add(ONE, 0.1 + 0.2, 1.5)
    log.add(ONE | {"proxy": "naswot"}, None, 2.0)
    for found in (log, ScoreLog(path)):
        assert found.get(dict(reversed(ONE.items()))) == LoggedScore(0.1 + 0.2, 1.5)
        assert found.get(ONE | {"proxy": "naswot"}) == LoggedScore(None, 2.0)
        assert found[ONE] == found.get(ONE)
        assert found.get(ONE | {"weight_seed": 1}) is None
        with pytest.raises(KeyError, match="weight_seed"):
            found[ONE | {"weight_seed": 1}]
        assert len(found) == 2


def test_without_a_file_it_remembers_for_itself() -> None:
    log = ScoreLog()
    log.add(ONE, 1.0, 0.0)
    assert log.get(ONE) == LoggedScore(1.0, 0.0)


def test_the_last_of_two_counts(tmp_path: Path) -> None:
    log = ScoreLog(tmp_path / "scores.jsonl")
    log.add(ONE, 1.0, 0.0)
    log.add(ONE, 2.0, 0.0)
    assert ScoreLog(log.path).get(ONE) == LoggedScore(2.0, 0.0)


def test_two_may_add_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "scores.jsonl"
    first, second = ScoreLog(path), ScoreLog(path)
    for i in range(5):
        first.add(ONE | {"weight_seed": i}, float(i), 0.0)
        second.add(ONE | {"weight_seed": 10 + i}, float(i), 0.0)
    assert len(ScoreLog(path)) == 10


@pytest.mark.parametrize("kept", [1, 20, 60, -1, -2])
def test_a_line_that_a_kill_cut_short_is_passed_over(kept: int, tmp_path: Path) -> None:
    path = tmp_path / "scores.jsonl"
    log = ScoreLog(path)
    log.add(ONE, 1.0, 0.0)
    whole = path.read_bytes()
    log.add(ONE | {"weight_seed": 1}, 2.0, 0.0)
    second = path.read_bytes()[len(whole) :]
    path.write_bytes(whole + second[:kept])
    resumed = ScoreLog(path)
    assert resumed.get(ONE) == LoggedScore(1.0, 0.0)
    resumed.add(ONE | {"weight_seed": 2}, 3.0, 0.0)
    again = ScoreLog(path)
    assert again.get(ONE) == LoggedScore(1.0, 0.0)
    assert again.get(ONE | {"weight_seed": 2}) == LoggedScore(3.0, 0.0)


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    for content in (b"hello\n", b'{"a": 1}\n[]\n3\n', b'{"question": 1, "value": 2, "seconds": 3}', b"\xff\xfe\x00"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"notes\.txt is no log of scores, and is left as it is; name another file"):
            ScoreLog(path)
        assert path.read_bytes() == content
    with pytest.raises(DataError, match="is a folder; the log of scores is a file"):
        ScoreLog(tmp_path)
    path.write_bytes(b"\n")
    assert len(ScoreLog(path)) == 0
