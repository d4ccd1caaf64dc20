"""`python -m perdure.testing.audit.pipelines DIR…`: judge the books of one or more seeds. Exit code 0 when they agree, else 1."""

import argparse
import json
import sys
from pathlib import Path

from perdure.testing.audit.pipelines import audit


def main() -> int:
    """Print each verdict; 1 when anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m perdure.testing.audit.pipelines", description="Judge the books of seeds.")
    parser.add_argument("places", type=Path, nargs="+", metavar="DIR", help="directory of one seed")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    arguments = parser.parse_args()
    verdicts = [(place, audit(place)) for place in arguments.places]
    for place, verdict in verdicts:
        said = json.dumps({"place": str(place), **verdict.as_data()}) if arguments.output == "json" else verdict.text()
        sys.stdout.write(said + "\n")
    return 0 if all(verdict.ok for _, verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
