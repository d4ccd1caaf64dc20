"""`perdure bench storage`, at a size that takes a second: it counts what it wrote, and says where."""

import json

import pytest

from perdure.bench import storage
from perdure.core.errors import InvalidArgument


def test_the_report_counts_what_is_there(capsys, tmp_path) -> None:
    """Events, lines and runs are those that were written; a restart with the index reads none of them."""
    assert storage.main(events=2_000, data=tmp_path, output="json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["workflows"], report["open_workflows"], report["events"]) == (200, 4, 2_000 - 4 * 8)
    assert report["restart_lines_read"] == 0
    assert report["transitions"] == 196 * 5 + 4 * 2
    assert report["latencies"]["describe"]["samples"] == storage.SAMPLES
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("output", ["text", "markdown"])
def test_people_can_read_it(capsys, tmp_path, output) -> None:
    """Hardware, sizes and latencies stand in it."""
    storage.main(events=100, data=tmp_path, output=output)
    text = capsys.readouterr().out
    for words in ("CPU", "restart with the index", "describe"):
        assert words in text


def test_too_small_a_size_is_refused(tmp_path) -> None:
    """A run has so many events."""
    with pytest.raises(InvalidArgument):
        storage.main(events=3, data=tmp_path)
