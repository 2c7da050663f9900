"""Downloads against a server on loopback that can break in every way the real one can."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from extractors import download, load_extractor
from extractors.download import fetch_elmo
from extractors.foundation.errors import DownloadError, ModelError
from extractors.registry import KNOWN_MODELS, KnownModel

WEIGHTS = bytes(range(256)) * 4096  # 1 MiB
OPTIONS = b'{"lstm": {}}'


@dataclass
class Server:
    """Files by name, how to misbehave, and what was asked."""

    files: dict[str, bytes] = field(default_factory=lambda: {"options.json": OPTIONS, "weights.hdf5": WEIGHTS})
    ranges: bool = True
    etag: str | None = '"v1"'
    last_modified: str | None = None
    send_length: bool = True
    content_type: str = "application/octet-stream"
    statuses: list[int] = field(default_factory=list)
    """Statuses of the next answers for the weights, before it behaves."""
    cuts: list[int] = field(default_factory=list)
    """After how many bytes of the weights' body to drop the connection, for the next answers."""
    cut: Callable[[], None] = lambda: None
    """What to do at such a point, before the connection is dropped."""
    requests: list[tuple[str, dict[str, str], int]] = field(default_factory=list)
    """(file, headers, status answered)."""
    address: str = ""

    def known(self, size: int | None = None) -> KnownModel:
        return KnownModel(
            "elmo-loopback",
            "",
            "elmo",
            urls=(f"{self.address}/options.json", f"{self.address}/weights.hdf5"),
            size=size,
        )

    def asked(self, name: str = "weights.hdf5") -> list[tuple[str | None, int]]:
        """(Range header, status) of each request for a file."""
        return [(headers.get("Range"), status) for file, headers, status in self.requests if file == name]


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            name = self.path.rsplit("/", 1)[-1]
            weights = name.endswith("weights.hdf5")
            body = server.files.get(name)
            status = server.statuses.pop(0) if weights and server.statuses else 200 if body is not None else 404
            start = 0
            if status == 200 and body is not None:
                wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
                condition = self.headers.get("If-Range")
                if wanted and server.ranges and condition in (None, server.etag, server.last_modified):
                    start = int(wanted[1])
                    status = 206 if start < len(body) else 416
            server.requests.append((name, dict(self.headers), status))
            self.send_response(status)
            rest = b"" if body is None or status not in (200, 206) else body[start:]
            self.send_header("Content-Type", server.content_type)
            if server.send_length:
                self.send_header("Content-Length", str(len(rest)))
            if server.etag:
                self.send_header("ETag", server.etag)
            if server.last_modified:
                self.send_header("Last-Modified", server.last_modified)
            if status == 206 and body is not None:
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            if status == 416 and body is not None:
                self.send_header("Content-Range", f"bytes */{len(body)}")
            self.end_headers()
            if weights and rest and server.cuts:
                self.wfile.write(rest[: server.cuts.pop(0)])
                self.wfile.flush()
                server.cut()
                self.close_connection = True
                return
            self.wfile.write(rest)

    return Handler


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(download, "_PAUSE", 0.0)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    behaviour = Server()
    running = ThreadingHTTPServer(("127.0.0.1", 0), _handler(behaviour))
    running.daemon_threads = True
    behaviour.address = f"http://127.0.0.1:{running.server_address[1]}/models/elmo"
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield behaviour
    running.shutdown()
    running.server_close()
    thread.join()


def _leftovers(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir() if not file.name.startswith(".")}


COMPLETE = {"options.json", "options.json.download.json", "weights.hdf5", "weights.hdf5.download.json"}


def test_download_once_then_from_the_cache(server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options, weights = fetch_elmo(server.known(len(WEIGHTS)), cache_dir=tmp_path)
    assert (options, weights) == tuple(tmp_path / "elmo-loopback" / name for name in ("options.json", "weights.hdf5"))
    assert (options.read_bytes(), weights.read_bytes()) == (OPTIONS, WEIGHTS)
    assert _leftovers(weights.parent) == COMPLETE
    record = json.loads((weights.parent / "weights.hdf5.download.json").read_text())
    assert record == {
        "url": f"{server.address}/weights.hdf5",
        "size": len(WEIGHTS),
        "sha256": hashlib.sha256(WEIGHTS).hexdigest(),
    }
    assert len(server.requests) == 2
    assert fetch_elmo(server.known(len(WEIGHTS)), cache_dir=tmp_path, offline=True) == (options, weights)
    assert len(server.requests) == 2, "a cached file was asked for again"
    assert capfd.readouterr() == ("", ""), "library code printed"


def test_the_cache_folder_can_be_set_in_the_environment(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JANUS_CACHE", str(tmp_path / "here"))
    options, _ = fetch_elmo(server.known())
    assert options.parent == tmp_path / "here" / "elmo-loopback"


def test_from_a_registered_name_to_vectors(
    server: Server, tmp_path: Path, elmo_reference: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files = {
        "options.json": (elmo_reference / "options.json").read_bytes(),
        "weights.hdf5": (elmo_reference / "lm_weights.hdf5").read_bytes(),
    }
    known = server.known(len(server.files["weights.hdf5"]))
    monkeypatch.setitem(KNOWN_MODELS, known.name, known)
    server.cuts = [200_000]
    extractor = load_extractor("elmo-loopback", cache_dir=tmp_path)
    assert extractor.info.name == "elmo-loopback"
    assert next(extractor.extract([["Hello", "world"]])).hidden.shape == (3, 2, 32)
    assert extractor.info.checksum == load_extractor(elmo_reference).info.checksum


def test_a_cut_connection_is_continued_where_it_broke(server: Server, tmp_path: Path) -> None:
    server.cuts = [len(WEIGHTS) // 2, 100_000]
    _, weights = fetch_elmo(server.known(len(WEIGHTS)), cache_dir=tmp_path)
    assert weights.read_bytes() == WEIGHTS
    (first, whole), (second, part), (third, rest) = server.asked()
    assert (first, whole, part, rest) == (None, 200, 206, 206)
    offsets = [int(str(asked).removeprefix("bytes=").removesuffix("-")) for asked in (second, third)]
    assert len(WEIGHTS) // 2 - download._BLOCK <= offsets[0] <= len(WEIGHTS) // 2
    assert offsets[0] < offsets[1] < len(WEIGHTS)
    assert _leftovers(weights.parent) == COMPLETE


def test_a_server_without_ranges_is_asked_for_the_whole_file_again(server: Server, tmp_path: Path) -> None:
    server.ranges, server.cuts = False, [500_000]
    _, weights = fetch_elmo(server.known(), cache_dir=tmp_path)
    assert weights.read_bytes() == WEIGHTS
    assert [status for _, status in server.asked()] == [200, 200]


@pytest.mark.parametrize(
    "validators", [{"etag": None}, {"etag": 'W/"weak"', "last_modified": "Tue, 01 Jan 2019 00:00:00 GMT"}]
)
def test_servers_without_a_strong_etag_can_be_continued(
    server: Server, tmp_path: Path, validators: dict[str, str | None]
) -> None:
    for name, value in validators.items():
        setattr(server, name, value)
    server.cuts = [500_000]
    _, weights = fetch_elmo(server.known(), cache_dir=tmp_path)
    assert weights.read_bytes() == WEIGHTS
    assert [status for _, status in server.asked()] == [200, 206]


def test_a_file_that_changed_between_two_attempts_starts_again(server: Server, tmp_path: Path) -> None:
    new = WEIGHTS[::-1]

    def change() -> None:
        server.files["weights.hdf5"], server.etag = new, '"v2"'

    server.cuts, server.cut = [500_000], change
    _, weights = fetch_elmo(server.known(), cache_dir=tmp_path)
    assert weights.read_bytes() == new
    assert [status for _, status in server.asked()] == [200, 200]


def test_giving_up_keeps_what_came_and_the_next_run_continues(server: Server, tmp_path: Path) -> None:
    server.cuts = [200_000, 0, 0, 0]
    with pytest.raises(DownloadError, match=r"connection was cut.*bytes are kept.*run the command again"):
        fetch_elmo(server.known(len(WEIGHTS)), cache_dir=tmp_path)
    folder = tmp_path / "elmo-loopback"
    assert not (folder / "weights.hdf5").exists(), "a half-written file must never look finished"
    assert (folder / "weights.hdf5.part").stat().st_size > 0
    _, weights = fetch_elmo(server.known(len(WEIGHTS)), cache_dir=tmp_path)
    assert weights.read_bytes() == WEIGHTS
    assert server.asked()[-1][1] == 206


def test_interrupted_by_the_user_then_resumed(server: Server, tmp_path: Path) -> None:
    finished = threading.Event()
    part = tmp_path / "elmo-loopback" / "weights.hdf5.part"

    def press_control_c() -> None:
        deadline = time.monotonic() + 20
        while not (part.exists() and part.stat().st_size > 100_000) and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        finished.wait(20)  # the client hangs in the middle of the body

    server.cuts, server.cut = [len(WEIGHTS) // 2], press_control_c
    # A test run in the background may have inherited an ignored SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            fetch_elmo(server.known(len(WEIGHTS)), cache_dir=tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
        finished.set()
    folder = part.parent
    kept = part.stat().st_size
    assert 0 < kept <= len(WEIGHTS) // 2
    assert not (folder / "weights.hdf5").exists()
    with pytest.raises(DownloadError, match="not complete"):
        fetch_elmo(server.known(len(WEIGHTS)), cache_dir=tmp_path, offline=True)
    _, weights = fetch_elmo(server.known(len(WEIGHTS)), cache_dir=tmp_path)
    assert weights.read_bytes() == WEIGHTS
    assert server.asked()[-1] == (f"bytes={kept}-", 206)
    assert len(server.asked("options.json")) == 1, "the finished options file was fetched again"
    assert _leftovers(folder) == COMPLETE


def test_a_part_file_that_is_already_whole_is_finished(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "elmo-loopback"
    folder.mkdir()
    (folder / "weights.hdf5.part").write_bytes(WEIGHTS)
    _, weights = fetch_elmo(server.known(), cache_dir=tmp_path)
    assert weights.read_bytes() == WEIGHTS
    assert server.asked() == [(f"bytes={len(WEIGHTS)}-", 416)]


def test_a_part_file_that_is_too_long_is_dropped(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "elmo-loopback"
    folder.mkdir()
    (folder / "weights.hdf5.part").write_bytes(WEIGHTS + b"more")
    _, weights = fetch_elmo(server.known(), cache_dir=tmp_path)
    assert weights.read_bytes() == WEIGHTS
    assert [status for _, status in server.asked()] == [416, 200]


def test_a_short_body_without_a_length_is_noticed_by_the_published_size(server: Server, tmp_path: Path) -> None:
    server.send_length, server.cuts = False, [500_000] * 10
    server.ranges = False
    with pytest.raises(DownloadError, match=r"ended after 500,000 of 1,048,576 bytes"):
        fetch_elmo(server.known(len(WEIGHTS)), cache_dir=tmp_path)


def test_another_size_than_published_is_refused_before_it_is_fetched(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"has 1,048,576 bytes, but 1,048,577 were published"):
        fetch_elmo(server.known(len(WEIGHTS) + 1), cache_dir=tmp_path)
    assert _leftovers(tmp_path / "elmo-loopback") == {"options.json"}


def test_a_corrupted_file_names_both_checksums_and_the_way_out(server: Server, tmp_path: Path) -> None:
    _, weights = fetch_elmo(server.known(len(WEIGHTS)), cache_dir=tmp_path)
    damaged = b"\xff" + WEIGHTS[1:]
    weights.write_bytes(damaged)
    sums = [hashlib.sha256(content).hexdigest() for content in (damaged, WEIGHTS)]
    with pytest.raises(DownloadError, match=f"{sums[0]}.*{sums[1]}.*delete {re.escape(str(weights))}"):
        fetch_elmo(server.known(len(WEIGHTS)), cache_dir=tmp_path)
    weights.write_bytes(WEIGHTS[:-1])
    with pytest.raises(DownloadError, match=r"1,048,575 bytes, but 1,048,576 were published"):
        fetch_elmo(server.known(len(WEIGHTS)), cache_dir=tmp_path)
    weights.unlink()
    assert fetch_elmo(server.known(len(WEIGHTS)), cache_dir=tmp_path)[1].read_bytes() == WEIGHTS
    (weights.parent / "weights.hdf5.download.json").write_text("{")
    with pytest.raises(DownloadError, match=r"cannot read the checksum"):
        fetch_elmo(server.known(len(WEIGHTS)), cache_dir=tmp_path)


def test_files_put_there_by_hand_are_taken_and_recorded(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "elmo-loopback"
    folder.mkdir()
    for name, content in server.files.items():
        (folder / name).write_bytes(content)
    fetch_elmo(server.known(len(WEIGHTS)), cache_dir=tmp_path, offline=True)
    assert server.requests == []
    assert _leftovers(folder) == COMPLETE


@pytest.mark.parametrize("by_environment", [False, True])
def test_offline_says_which_files_to_put_where(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_environment: bool
) -> None:
    if by_environment:
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError) as caught:
        fetch_elmo(server.known(), cache_dir=tmp_path, offline=None if by_environment else True)
    for url in server.known().urls:
        assert f"{url} -> {tmp_path / 'elmo-loopback' / url.rsplit('/', 1)[1]}" in str(caught.value)
    assert server.requests == []
    assert not (tmp_path / "elmo-loopback").exists()


@pytest.mark.parametrize(("status", "requests"), [(404, 1), (403, 1), (503, 4)])
def test_refusals_are_told_in_plain_words(server: Server, tmp_path: Path, status: int, requests: int) -> None:
    server.statuses = [status] * 10
    with pytest.raises(DownloadError, match=rf"the server answered {status} .*save it as .*weights\.hdf5"):
        fetch_elmo(server.known(), cache_dir=tmp_path)
    assert len(server.asked()) == requests


def test_a_server_that_recovers_is_asked_again(server: Server, tmp_path: Path) -> None:
    server.statuses = [503, 429, 500]
    assert fetch_elmo(server.known(), cache_dir=tmp_path)[1].read_bytes() == WEIGHTS


def test_a_web_page_instead_of_the_file_is_not_kept(server: Server, tmp_path: Path) -> None:
    server.content_type = "text/html; charset=utf-8"
    with pytest.raises(DownloadError, match="a web page came instead"):
        fetch_elmo(server.known(), cache_dir=tmp_path)
    assert _leftovers(tmp_path / "elmo-loopback") == set()


def test_no_connection(server: Server, tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
    known = replace(server.known(), urls=(f"{address}/options.json", f"{address}/weights.hdf5"))
    with pytest.raises(DownloadError, match=r"no connection to the server; check the connection and run"):
        fetch_elmo(known, cache_dir=tmp_path)


def test_a_server_that_falls_silent(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_TIMEOUT", (5.0, 0.1))
    monkeypatch.setattr(download, "_ATTEMPTS", 1)
    silence = threading.Event()
    server.cuts, server.cut = [1000], lambda: bool(silence.wait(20)) and None
    with pytest.raises(DownloadError, match=r"no connection|did not answer in time"):
        fetch_elmo(server.known(), cache_dir=tmp_path)
    silence.set()


def test_a_cache_that_cannot_be_written(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DownloadError, match=r"cannot write to the cache folder .*JANUS_CACHE"):
        fetch_elmo(server.known(), cache_dir=tmp_path / "file")


def test_two_processes_at_once_download_once(server: Server, tmp_path: Path) -> None:
    program = (
        "import sys; from extractors.download import fetch_elmo; from extractors.registry import KnownModel\n"
        "address, cache = sys.argv[1:]\n"
        "urls = (address + '/options.json', address + '/weights.hdf5')\n"
        "print(fetch_elmo(KnownModel('elmo-loopback', '', 'elmo', urls=urls), cache_dir=cache)[1])\n"
    )
    server.cuts = [300_000]
    command = [sys.executable, "-c", program, server.address, str(tmp_path)]
    root = Path(__file__).resolve().parents[2]
    running = [subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    printed = {process.communicate(timeout=60)[0].strip() for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    assert printed == {str(tmp_path / "elmo-loopback" / "weights.hdf5")}
    assert (tmp_path / "elmo-loopback" / "weights.hdf5").read_bytes() == WEIGHTS
    assert [status for _, status in server.asked()] == [200, 206]


def test_the_published_urls() -> None:
    base = "https://allennlp.s3.amazonaws.com/models/elmo"
    stems = {
        "elmo-small": "2x1024_128_2048cnn_1xhighway/elmo_2x1024_128_2048cnn_1xhighway",
        "elmo-medium": "2x2048_256_2048cnn_1xhighway/elmo_2x2048_256_2048cnn_1xhighway",
        "elmo-original": "2x4096_512_2048cnn_2xhighway/elmo_2x4096_512_2048cnn_2xhighway",
        "elmo-5.5b": "2x4096_512_2048cnn_2xhighway_5.5B/elmo_2x4096_512_2048cnn_2xhighway_5.5B",
    }
    for name, stem in stems.items():
        assert KNOWN_MODELS[name].urls == (f"{base}/{stem}_options.json", f"{base}/{stem}_weights.hdf5")
    sizes = {name: KNOWN_MODELS[name].size for name in stems}
    assert sizes == {"elmo-small": None, "elmo-medium": None, "elmo-original": 374_434_792, "elmo-5.5b": None}
