"""A user's first hour with a broker by itself."""

import pytest

from e2e.clients.first_hour.groups import TestGroups
from e2e.clients.first_hour.pasted import TestPasted
from e2e.clients.first_hour.tools import TestKafkasTools

__all__ = ["TestGroups", "TestKafkasTools", "TestPasted"]

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]
