"""`python -m perdure`: the command line, the same as `perdure`."""

from perdure.cli import main

if __name__ == "__main__":
    main()
