"""A room with one mutant that nothing can notice, for the test of the driver."""


class Distance:
    """How far a number is from another one."""

    def __init__(self, number: float, other: float = 5) -> None:
        self._number = number - other

    @property
    def size(self) -> float:
        # Of nothing it does not matter which way it points.
        return -self._number if self._number < 0 else self._number


def count_down(number: int) -> int:
    """Mutants of it never end."""
    rounds = 0
    while number > 0:
        number -= 1
        rounds += 1
    return rounds
