"""Which share of a topic's keys get another partition when their number changes."""

from fractions import Fraction
from math import lcm


def remapped_share(before: int, after: int) -> Fraction:
    """The share of keys, of all that could be, whose partition changes; 0 to 1.

    `before` and `after` are numbers of partitions, at least 1. Partitioners of clients take the
    remainder of a hash (murmur2, CRC32 or FNV-1a) by the number of partitions. Hashes whose
    remainders by both numbers are equal are those whose remainder by the least common multiple is
    below the smaller number. A client with a partitioner of its own may place keys in another way.
    """
    return 1 - Fraction(min(before, after), lcm(before, after))
