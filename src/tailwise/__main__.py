"""``python -m tailwise``."""

from tailwise.cli.app import main

main()
