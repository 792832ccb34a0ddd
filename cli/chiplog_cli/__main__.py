"""`python -m chiplog_cli`."""

from chiplog_cli.main import main

if __name__ == "__main__":
    main()
