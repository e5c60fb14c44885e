import pytest


@pytest.fixture
def one_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Date all manifests the same, so that only the latest ones are kept."""
    monkeypatch.setattr("skytide.spark.checkpoint.store.now_us", lambda: 1_700_000_000_000_000)
