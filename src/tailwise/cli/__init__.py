"""The command line, ``tailwise ...``: one module per command."""
