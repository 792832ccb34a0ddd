"""Fixtures for the tests of this folder."""

import pytest

from chiplog_core.spark.application import Application
from chiplog_core.spark.settings import PodDefaults, Run
from tests.spark import applications


@pytest.fixture
def run() -> Run:
    return applications.RUN


@pytest.fixture
def defaults() -> PodDefaults:
    return applications.DEFAULTS


@pytest.fixture
def plain() -> Application:
    """An application for which a user has said nothing."""
    return applications.PLAIN


@pytest.fixture
def rich() -> Application:
    """An application for which a user has said all there is to say."""
    return applications.RICH
