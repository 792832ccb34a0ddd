"""The error that keeps the process from starting."""


class CannotStart(Exception):  # noqa: N818 - reads as what it says
    """The broker cannot start with its configuration; the text names the setting and the remedy."""
