"""The mark of tests that only the long form of a lane runs."""

from typing import Final

import pytest

from e2e.lanes import is_full

LONG_FORM: Final = pytest.mark.skipif(
    not is_full(), reason="takes a good part of its lane's five minutes: FULL=1 runs it"
)
