"""The host is as bad as it says: what clients are tested with is tested."""

from http.client import IncompleteRead
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.official.host import FAULTS, PAGE, Host

OFFICIAL = "https://example.org/folder/file.bin?dl=1"
FILE = bytes(range(256)) * 300


def opened(fault, **headers):
    with Host(lambda url: {OFFICIAL: FILE}[url], lambda path, attempt: fault) as host:
        address = host.address(OFFICIAL)
        try:
            with urlopen(Request(address, headers=headers)) as answer:
                try:
                    body = answer.read()
                except IncompleteRead as error:
                    body = error.partial
                return answer.status, dict(answer.headers), body, host
        except HTTPError as error:
            with error:
                return error.code, dict(error.headers), error.read(), host


def test_a_file_is_sent_whole_or_from_a_byte():
    status, headers, body, host = opened("")
    assert (status, body, host.sent) == (200, FILE, len(FILE))
    tag = headers["ETag"]
    assert opened("", Range="bytes=70000-", **{"If-Range": tag})[::2] == (206, FILE[70_000:])
    assert opened("", Range="bytes=70000-", **{"If-Range": '"other"'})[::2] == (200, FILE)
    assert opened("", Range=f"bytes={len(FILE)}-")[0] == 416
    assert [each.headers["range"] for each in opened("", Range="bytes=9-")[3].asked] == ["bytes=9-"]


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_what_it_says(fault):
    status, headers, body, _ = opened(fault)
    if fault in ("404", "429", "503"):
        assert (status, "Retry-After" in headers) == (int(fault), fault != "404")
    elif fault == "html":
        assert (status, body) == (200, PAGE)
    elif fault in ("wrong", "longer"):
        assert status == 200
        assert body != FILE
        assert len(body) >= len(FILE)
    elif fault in ("drop", "unsized drop", "other"):
        assert len(body) < len(FILE)
        assert ("Content-Length" in headers) == (fault != "unsized drop")
    else:
        assert (status, body) == (200, FILE)
        assert ("Content-Length" in headers) == (fault not in ("chunked", "unsized"))


def test_a_range_is_ignored_or_refused():
    assert opened("whole", Range="bytes=9-")[::2] == (200, FILE)
    assert opened("refused range", Range="bytes=9-")[0] == 416


def test_what_is_not_there_and_what_needs_a_token():
    with Host(lambda url: {}[url], token="secret", gated=lambda path: "gated" in path) as host:
        for path, header, code in (
            ("/a", {}, 404),
            ("/gated", {}, 401),
            ("/gated", {"Authorization": "Bearer other"}, 403),
            ("/gated", {"Authorization": "Bearer secret"}, 404),
        ):
            with pytest.raises(HTTPError) as raised:
                urlopen(Request(f"{host.url}/example.org{path}", headers=header))
            raised.value.close()
            assert raised.value.code == code
