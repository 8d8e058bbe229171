"""What the tests share: where the experiments are."""

from pathlib import Path

import pytest


@pytest.fixture
def experiments() -> Path:
    return Path(__file__).parents[2] / "experiments"
