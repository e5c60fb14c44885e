"""Places with streams for the tests: folders, a real Redis server, and a server that speaks Kafka's protocol."""

import ctypes
import json
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

COLUMNS = "n bigint, pad string"
SCHEMA = pa.schema([("n", pa.int64()), ("pad", pa.string())])
Record = tuple[int, str]


class FolderPlace:
    """A folder with files of one format."""

    def __init__(self, folder: Path, format: str) -> None:
        self.folder, self.format = folder, format

    def settings(self) -> dict[str, Any]:
        return {"place": str(self.folder), "format": self.format}

    def write(self, stream: str, records: list[Record]) -> None:
        path = self.folder / f"{stream}.{self.format}"
        if self.format == "arrow":
            self._write_arrow(path, records)
            return
        with path.open("a") as file:
            for n, pad in records:
                quoted = '"' + pad.replace('"', '""') + '"'
                file.write(json.dumps({"n": n, "pad": pad}) + "\n" if self.format == "jsonl" else f"{n},{quoted}\n")

    def _write_arrow(self, path: Path, records: list[Record]) -> None:
        new, data = not path.exists(), pa.BufferOutputStream()
        schema = SCHEMA.serialize().size
        writer = pa.ipc.new_stream(data, SCHEMA)
        for some in (records[:1], records[1:]):
            if some:
                writer.write_batch(pa.record_batch([[n for n, _ in some], [pad for _, pad in some]], schema=SCHEMA))
        end = data.tell()
        with path.open("ab") as file:
            file.write(data.getvalue()[0 if new else schema : end])

    def remove(self, stream: str) -> None:
        (self.folder / f"{stream}.{self.format}").unlink()


class RedisPlace:
    """Keys of a Redis server, which begin with a word of their own."""

    def __init__(self, url: str, format: str) -> None:
        import redis

        self.url, self.format, self.prefix = url, format, uuid.uuid4().hex
        self.server = redis.Redis.from_url(url)

    def settings(self) -> dict[str, Any]:
        return {"place": self.url, "streams": f"{self.prefix}:*", "format": self.format}

    def write(self, stream: str, records: list[Record]) -> None:
        pipe = self.server.pipeline()
        for n, pad in records:
            pipe.xadd(
                f"{self.prefix}:{stream}",
                {"n": n, "pad": pad} if self.format == "fields" else {"value": json.dumps({"n": n, "pad": pad}, indent=1)},
            )
        pipe.execute()

    def remove(self, stream: str) -> None:
        self.server.delete(f"{self.prefix}:{stream}")


class KafkaPlace:
    """A topic whose partitions are the streams."""

    def __init__(self, servers: "KafkaServers", streams: tuple[str, ...]) -> None:
        import confluent_kafka

        self.topic, self.streams, self.kafka, self.servers = uuid.uuid4().hex, streams, servers, servers.address
        servers.create(self.topic, len(streams))
        self.producer = confluent_kafka.Producer({"bootstrap.servers": self.servers, "log_level": 0})

    def settings(self) -> dict[str, Any]:
        return {"place": f"kafka://{self.servers}", "topics": self.topic}

    def write(self, stream: str, records: list[Record]) -> None:
        for n, pad in records:
            self.producer.produce(self.topic, json.dumps({"n": n, "pad": pad}).encode(), partition=self.streams.index(stream))
        assert self.producer.flush(60) == 0


def named(place: Any, stream: str) -> str:
    """Return the name that a fleet gives a stream of a place."""
    if isinstance(place, RedisPlace):
        return f"{place.prefix}:{stream}"
    return f"{place.topic}-{place.streams.index(stream)}" if isinstance(place, KafkaPlace) else stream


@contextmanager
def redis_server(folder: Path, *options: str) -> Iterator[str]:
    """Run a server on loopback, with more options; the test is skipped where there is none."""
    import pytest

    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no redis-server; install it (Debian: apt-get install redis-server) to test fleets on Redis")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder), "--daemonize", "no", *options],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        for line in server.stdout:
            if "Ready to accept connections" in line:
                break
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.terminate()
        server.communicate(timeout=60)


class KafkaServers:
    """A server that speaks Kafka's protocol on loopback: the one that librdkafka brings along for tests."""

    def __init__(self) -> None:
        import confluent_kafka

        libraries = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
        self._lib = ctypes.CDLL(str(next(libraries.glob("librdkafka*.so*"))))
        for name in ("rd_kafka_new", "rd_kafka_mock_cluster_new"):
            getattr(self._lib, name).restype = ctypes.c_void_p
        self._lib.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
        reason = ctypes.create_string_buffer(512)
        self._client = ctypes.c_void_p(self._lib.rd_kafka_new(0, None, reason, 512))
        assert self._client, reason.value
        self._cluster = ctypes.c_void_p(self._lib.rd_kafka_mock_cluster_new(self._client, 1))
        self.address = self._lib.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def create(self, topic: str, partitions: int) -> None:
        assert self._lib.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, 1) == 0

    def fail(self, topic: str, code: int) -> None:
        """Answer whoever asks for a topic with an error, or with 0, with none."""
        self._lib.rd_kafka_mock_topic_set_error(self._cluster, topic.encode(), code)

    def stop(self) -> None:
        self._lib.rd_kafka_mock_cluster_destroy(self._cluster)
        self._lib.rd_kafka_destroy(self._client)
