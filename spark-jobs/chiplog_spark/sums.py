"""An accumulator in which Spark adds up the work of tasks."""

from collections import Counter

from pyspark.accumulators import AccumulatorParam

from chiplog_spark.progress import Done


class Sums(AccumulatorParam[Done]):
    """Sums by name."""

    def zero(self, value: Done) -> Done:
        return Counter()

    def addInPlace(self, value1: Done, value2: Done) -> Done:  # noqa: N802 - pyspark's name
        value1.update(value2)
        return value1
