"""What keeps the process from starting."""


class CannotStart(Exception):  # noqa: N818 - reads as what it says
    """The broker cannot start with what it was given; the text names what, and the remedy."""
