"""`python -m perdure.testing.audit`: judge books that lie on disk. Exit code 0 when they agree, 1 when they do not."""

import argparse
import sys
from pathlib import Path

from perdure.testing.audit import audit


def main() -> int:
    """Print the verdict; 1 when anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m perdure.testing.audit", description="Compare histories with a ledger.")
    parser.add_argument("--journal", type=Path, required=True, help="directory with the journal's segments")
    parser.add_argument("--ledger", type=Path, required=True, help="the services' ledger.jsonl")
    parser.add_argument("--orders", type=Path, required=True, help="list of acknowledged starts and signals")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    arguments = parser.parse_args()
    verdict = audit(arguments.journal, arguments.ledger, arguments.orders)
    sys.stdout.write((verdict.json() if arguments.output == "json" else verdict.text()) + "\n")
    return 0 if verdict.ok else 1


if __name__ == "__main__":
    sys.exit(main())
