"""`python3 -m chiplog_operator`."""

from chiplog_operator.main import main

main()
