from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet_model import Asked
from places import KafkaServers, redis_server


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis server of the tests' own."""
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaServers]:
    """A server that speaks Kafka's protocol."""
    servers = KafkaServers()
    yield servers
    servers.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "feeds"
    made.mkdir()
    return made


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    """A reader of an empty folder."""
    (tmp_path / "feeds").mkdir()
    (tmp_path / "channel").mkdir()
    return Asked(tmp_path / "notes", place=str(tmp_path / "feeds"), channel=str(tmp_path / "channel"), splits=2)
