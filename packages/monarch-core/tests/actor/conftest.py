"""Every test of this folder hears of failures, and fails for one that it did not expect."""

import pytest


@pytest.fixture(autouse=True)
def _no_failure_goes_unheard(failures):
    """See `failures`."""
