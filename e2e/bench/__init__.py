"""Chiplog beside Apache Kafka, on this machine, in one run (`make bench`).

A machine's speed changes by the minute, so a number alone means little. Every
measurement is a pair: the same program with the same flags against both brokers, one
right after the other. The order changes with each pair, and dirty pages are synced
before each measurement. What counts is the ratio within a pair; the median of the
ratios is compared with a goal, and the lowest and highest ratio are shown beside it
(`paired.py`). A difference of less than a tenth should be read as none.

`lines.py` lists what is measured, with the goals. The run succeeds also where a goal is
missed, or an experiment fails or cannot be run here; the table says so.
"""
