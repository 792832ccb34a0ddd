"""An accumulator in which Spark adds up the work of tasks."""

from collections import Counter

from pyspark.accumulators import AccumulatorParam

from chiplog_spark.progress import Done


class Sums(AccumulatorParam[Done]):
    """Adds up the counters that tasks report: for each name, the sum of its counts."""

    def zero(self, value: Done) -> Done:
        """The sum with which each task begins, whatever the accumulator's initial value is."""
        return Counter()

    def addInPlace(self, value1: Done, value2: Done) -> Done:  # noqa: N802 - pyspark's name
        """Merge the second sum into the first, and return it, as Spark requires."""
        value1.update(value2)
        return value1
