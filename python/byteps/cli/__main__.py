"""`python -m byteps.cli` is `bps`."""

from byteps.cli.main import main

main()
