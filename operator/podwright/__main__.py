"""`python -m podwright`: the command line without an installed script."""

from podwright.cli.main import main

main(prog_name="podwright")
