"""What the tests of evaluate and plan share."""

import pytest
from made_up import make_world


@pytest.fixture(scope="session")
def world():
    return make_world()
