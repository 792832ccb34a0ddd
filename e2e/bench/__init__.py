"""Chiplog beside Apache Kafka, on this machine, in one run (`make bench`).

A machine's speed changes by the minute, so no number here stands alone. Every
measurement is a pair: the same program with the same flags against both brokers, one
right after the other, the order changing each time, what is unwritten synced before.
What counts is the ratio within a pair; the median over at least six pairs is held
against a goal, with the lowest and highest beside it (`paired.py`). A difference of
less than a tenth should be read as none.

What is measured and what is hoped for is a table (`lines.py`). A goal missed is
printed, and is no failure of the run; nor is an experiment that cannot be run here, of
which the table says why.
"""
