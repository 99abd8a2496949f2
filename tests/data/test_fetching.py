"""Fetching one file from hosts that misbehave."""

import hashlib
import random
from functools import partial

import pytest

from agentgym.data.fetching import Fetcher
from agentgym.data.sources import SourceFile
from agentgym.errors import UsageError
from tests.data import mirror

DATA = random.Random(7).randbytes(3_000_000)
SHA256 = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def host():
    with mirror.serving({"/a": DATA, "/b": DATA, "/short": DATA[:-1]}) as (url, handler):
        yield url, handler


class Way:
    """A fetcher of one file; its waits and lines are kept."""

    def __init__(self, path, urls, sha256=SHA256, size=3_000_000, **settings):
        self.path = path / "file.part"
        self.file = SourceFile(("set",), "file", tuple(urls), "V", size, sha256)
        self.waits, self.lines, self.bars = [], [], []
        self.fetcher = Fetcher(
            say=self.lines.append,
            sleep=self.waits.append,
            progress=lambda done, total: self.bars.append((done, total)),
            total=size or 0,
            **settings,
        )

    def fetch(self):
        found = self.fetcher.fetch("set", self.file, self.path)
        assert self.path.read_bytes() == DATA
        assert found == (len(DATA), SHA256)

    def refusal(self):
        with pytest.raises(UsageError) as caught:
            self.fetcher.fetch("set", self.file, self.path)
        assert "\n" not in str(caught.value)
        return str(caught.value)


def ranges(handler):
    return [headers.get("Range") for _, headers in handler.seen]


def test_a_file_comes_with_a_bar_and_a_line_that_names_its_mirror(host, tmp_path):
    url, _ = host
    way = Way(tmp_path, [f"{url}/a"])
    way.fetch()
    assert way.bars[-1] == (len(DATA), len(DATA))
    assert way.lines == [f"file: 3,000,000 bytes, from {url.removeprefix('http://')}/a"]


@pytest.mark.parametrize("known", [True, False])
def test_a_dropped_connection_is_resumed_where_it_ended(host, tmp_path, known):
    url, handler = host
    handler.faults["/a"] = [mirror.cut_after(1_000_000), mirror.cut_after(500_001)]
    way = Way(tmp_path, [f"{url}/a"], SHA256 if known else None)
    way.fetch()
    assert ranges(handler) == [None, "bytes=1000000-", "bytes=1500001-"]
    assert {headers.get("If-Range") for _, headers in handler.seen[1:]} == {mirror.tag_of(DATA)}
    assert not way.waits  # each try brought something


def test_a_later_process_resumes_what_an_earlier_one_has(host, tmp_path):
    url, handler = host
    handler.faults["/a"] = [mirror.cut_after(1_000_000), *[mirror.status(503)] * 9]
    assert "HTTP 503" in Way(tmp_path, [f"{url}/a"]).refusal()
    handler.faults.clear()
    handler.seen.clear()
    way = Way(tmp_path, [f"{url}/a"])
    way.fetch()
    assert ranges(handler) == ["bytes=1000000-"]
    assert way.bars[0] == (1_000_000, len(DATA))


def test_another_mirror_goes_on_where_the_digest_is_known(host, tmp_path):
    url, handler = host
    handler.faults["/a"] = [mirror.cut_after(1_000_000), *[mirror.status(404)] * 9]
    Way(tmp_path, [f"{url}/a", f"{url}/b"]).fetch()
    assert handler.seen[-1][0] == "/b"
    assert handler.seen[-1][1]["Range"] == "bytes=1000000-"
    assert "If-Range" not in handler.seen[-1][1]


def test_another_mirror_begins_anew_where_no_digest_is_known(host, tmp_path):
    url, handler = host
    handler.faults["/a"] = [mirror.cut_after(1_000_000), *[mirror.status(404)] * 9]
    Way(tmp_path, [f"{url}/a", f"{url}/b"], None).fetch()
    assert "Range" not in handler.seen[-1][1]


def test_a_changed_file_begins_anew(host, tmp_path):
    url, handler = host
    handler.faults["/a"] = [mirror.cut_after(1_000_000, tag='"older"')]
    Way(tmp_path, [f"{url}/a"]).fetch()
    assert handler.seen[1][1]["If-Range"] == '"older"'


@pytest.mark.parametrize(
    "fault", [mirror.without_range, mirror.without_length, mirror.chunked, mirror.status(416)]
)
def test_a_host_without_range_begins_anew(host, tmp_path, fault):
    url, handler = host
    handler.faults["/a"] = [mirror.cut_after(1_000_000), fault]
    Way(tmp_path, [f"{url}/a"]).fetch()


@pytest.mark.parametrize("fault", [mirror.without_length, mirror.chunked])
def test_a_file_of_unknown_size_comes_from_a_host_that_says_none(host, tmp_path, fault):
    url, handler = host
    handler.faults["/a"] = [mirror.chunked_and_cut, fault]
    Way(tmp_path, [f"{url}/a"], size=None).fetch()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (mirror.html, "a page of HTML came"),
        (mirror.disguised_html, "a page of HTML came"),
        (mirror.wrong, "its sha256 is"),
        (mirror.status(404), "HTTP 404"),
        (mirror.status(429, Retry_After="3600"), "HTTP 429 Too Many Requests, asks to wait 3,600 s"),
        (mirror.redirect("file:///etc/passwd"), "is not allowed"),
        (mirror.redirect("ftp://127.0.0.1/a"), "is not an address"),
        (lambda handler, data: mirror.whole(handler, data + b"x"), "it has 3,000,001 bytes, not 3,000,000"),
        (lambda handler, data: mirror.chunked(handler, data + b"x"), "more than 3,000,000 bytes come"),
    ],
)
def test_what_is_not_the_file_is_refused_and_the_next_mirror_is_taken(host, tmp_path, fault, reason):
    url, handler = host
    handler.faults["/a"] = [fault, fault]
    assert reason in Way(tmp_path / "one", [f"{url}/a"]).refusal()
    way = Way(tmp_path / "two", [f"{url}/a", f"{url}/b"])
    way.fetch()
    assert way.lines[-1].endswith("/b")


def test_all_reasons_are_named(host, tmp_path):
    url, _ = host
    complaint = Way(tmp_path, [f"{url}/none", f"{url}/short", "http://127.0.0.1:1/x"]).refusal()
    host_name = url.removeprefix("http://")
    assert f"{host_name}/none: HTTP 404" in complaint
    assert f"{host_name}/short: it has 2,999,999 bytes, not 3,000,000" in complaint
    assert "127.0.0.1:1/x: " in complaint


def test_a_busy_host_is_asked_again_when_it_says(host, tmp_path):
    url, handler = host
    handler.faults["/a"] = [mirror.status(429, Retry_After="7"), *[mirror.status(503)] * 3]
    way = Way(tmp_path, [f"{url}/a"])
    way.fetch()
    assert way.waits == [7.0, 2.0, 4.0, 8.0]


def test_a_host_that_stays_busy_is_left(host, tmp_path):
    url, handler = host
    handler.faults["/a"] = [mirror.status(503)] * 9
    way = Way(tmp_path, [f"{url}/a"])
    assert "HTTP 503" in way.refusal()
    assert way.waits == [1.0, 2.0, 4.0, 8.0]


def test_a_damaged_draft_is_found_and_fetched_anew(host, tmp_path):
    url, _ = host
    for damaged in (b"x" * len(DATA), b"x" * 1_000_000, b"x" * (len(DATA) + 5)):
        way = Way(tmp_path, [f"{url}/a"])
        way.path.write_bytes(damaged)
        way.fetch()


def test_a_whole_draft_is_checked_without_asking(host, tmp_path):
    url, handler = host
    way = Way(tmp_path, [f"{url}/a"])
    way.path.write_bytes(DATA)
    way.fetch()
    assert not handler.seen


def test_parts_follow_each_other_in_one_file(host, tmp_path):
    url, handler = host
    handler.files["/1"], handler.files["/2"] = DATA[:1_000_000], DATA[1_000_000:]
    way = Way(tmp_path, [f"{url}/a"])
    one, two = (
        SourceFile(("set",), str(n), (f"{url}/{n}",), "V", len(data), hashlib.sha256(data).hexdigest())
        for n, data in ((1, DATA[:1_000_000]), (2, DATA[1_000_000:]))
    )
    handler.faults["/2"] = [mirror.cut_after(700_000), mirror.wrong]
    for _ in range(2):  # the second time all of it is there
        base = 0
        for part in (one, two):
            base += way.fetcher.fetch("set", part, way.path, base=base)[0]
        assert way.path.read_bytes() == DATA
    assert [path for path, _ in handler.seen] == ["/1", "/2", "/2", "/2"]


def test_a_redirect_to_another_host_gets_no_token(host, tmp_path, monkeypatch):
    url, handler = host
    with mirror.serving({"/a": DATA}) as (other, others):
        handler.faults["/hub"] = [mirror.redirect(f"{url}/a"), mirror.redirect(f"{other}/a")]
        monkeypatch.setenv("HF_ENDPOINT", url)
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
        for name in ("one", "two"):
            Way(tmp_path / name, ["https://huggingface.co/hub"]).fetch()
        Way(tmp_path / "three", [f"{other}/a"]).fetch()
    assert [headers.get("Authorization") for _, headers in handler.seen] == ["Bearer hf_secret"] * 3
    assert [headers.get("Authorization") for _, headers in others.seen] == [None, None]


def test_gated_files_name_their_terms(host, tmp_path):
    url, handler = host
    handler.faults["/a"] = [mirror.status(401)]
    complaint = Way(tmp_path, [f"{url}/a"], terms="https://example.com/terms").refusal()
    assert "accept the terms at https://example.com/terms, then set HF_TOKEN" in complaint


def test_a_proxy_is_asked(host, tmp_path, monkeypatch):
    url, handler = host
    handler.files["http://far.example/a"] = DATA
    monkeypatch.setenv("http_proxy", url)
    Way(tmp_path, ["http://far.example/a"]).fetch()
    assert [path for path, _ in handler.seen] == ["http://far.example/a"]


def test_a_mirror_comes_first_or_is_alone(host, tmp_path):
    url, handler = host
    handler.files["/m/set/file"] = DATA
    Way(tmp_path / "one", [f"{url}/a"], mirror=f"{url}/m/").fetch()
    assert [path for path, _ in handler.seen] == ["/m/set/file"]
    del handler.files["/m/set/file"]
    Way(tmp_path / "two", [f"{url}/a"], mirror=f"{url}/m").fetch()
    assert "HTTP 404" in Way(tmp_path / "three", [f"{url}/a"], mirror=f"{url}/m", only_mirror=True).refusal()


def test_a_folder_is_a_mirror_whatever_its_files_are_called(tmp_path):
    brought = tmp_path / "brought"
    brought.mkdir()
    (brought / "download?id=1").write_bytes(DATA)
    (brought / "another").write_bytes(bytes(len(DATA)))
    way = partial(Way, urls=["https://127.0.0.1/x"], mirror=str(brought), only_mirror=True)
    way(tmp_path).fetch()
    (brought / "download?id=1").unlink()
    assert "its sha256 is" in way(tmp_path / "two").refusal()
    (brought / "another").unlink()
    assert f"{brought} does not have it" in way(tmp_path / "three").refusal()


def test_a_local_copy_without_a_digest_continues_nothing(tmp_path):
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "file").write_bytes(DATA)
    way = Way(tmp_path, ["https://127.0.0.1/x"], None, mirror=str(tmp_path / "copy"), only_mirror=True)
    way.path.write_bytes(b"x" * 1_000)
    way.fetch()


@pytest.mark.parametrize("url", ["ftp://host/a", "file:///a", "no-address", "http://", "http://a b/"])
def test_other_addresses_are_refused(url):
    with pytest.raises(UsageError, match="is not an address"):
        Fetcher(mirror=url)
    with pytest.raises(UsageError, match="is not an address"):
        SourceFile(("set",), "file", (url,), "V")
