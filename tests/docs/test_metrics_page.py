"""The page about metrics lists each of them, in order, as the code has them."""

import re
from pathlib import Path

from perdure.server.metrics import METRICS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")


def test_every_metric_stands_there() -> None:
    """Name, type, labels and help."""
    listed = re.findall(r"^\| `perdure_.*$", PAGE, re.MULTILINE)
    assert listed == [
        f"| `{known.name}` | {known.kind} | {', '.join(f'`{label}`' for label in known.labels)} | {known.help} |"
        for known in METRICS
    ]


def test_names_follow_the_conventions() -> None:
    """Counters end in `_total`, nothing else does; units are base units; names are told apart."""
    names = [known.name for known in METRICS]
    assert len(set(names)) == len(names) > 25
    for known in METRICS:
        assert known.name.startswith("perdure_")
        assert known.name.endswith("_total") == (known.kind == "counter")
        assert not re.search(r"_(ms|us|millis\w*|kb|mib|percent)(_|$)", known.name)
        assert known.help.endswith(".")
