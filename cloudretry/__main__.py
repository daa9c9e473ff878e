"""`python -m cloudretry`."""

from cloudretry.cli.main import main

main()
