"""Host guard: the names that a site answers to, and the origins that may send it forms.

A page of another site can have its own name resolve to this machine (DNS rebinding), and can send forms
here. So a request has to name a host that is known, and a form has to come from a page of that host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from email.message import Message
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from agentgym.errors import UsageError

LOOPBACK_NAME = "localhost"

_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]+")
"""Pattern of a host name or address, with a port."""

MAX_SHOWN = 100
"""Most characters of a host name in an error message."""


class Refusal(NamedTuple):
    """Reason for refusing a request."""

    status: int
    line: str


class HostGuard:
    """Tells requests for this site, from its own pages, from others.

    Example:
        >>> guard = HostGuard("127.0.0.1", also=["shop.example.org"])
        >>> guard.knows("localhost"), guard.knows("shop.example.org"), guard.knows("evil.example")
        (True, True, False)
    """

    def __init__(self, host: str, *, also: Iterable[str] = ()):
        """Take the names of the site.

        ``host``: name or address it listens on; where that is every address of the machine, any address will
        do, for an address cannot be made to lead elsewhere. ``also``: other names, such as a proxy's.
        """
        self._also = frozenset(_checked(name) for name in also)
        self._names = self._also | {_plain(host), LOOPBACK_NAME}
        self._any_address = not host or (is_address(host) and ip_address(host).is_unspecified)

    def knows(self, name: str) -> bool:
        """Return whether the site answers to a name or address, which has no port."""
        if _plain(name) in self._names:
            return True
        return is_address(name) and (self._any_address or ip_address(name).is_loopback)

    def refusal(self, method: str, headers: Message, *, named: bool) -> Refusal | None:
        """Return why a request is refused; None where it is not.

        The origin of ``GET`` and ``HEAD`` is not checked: they change nothing. ``named``: whether the request
        has to name its host, as since HTTP/1.1.
        """
        hosts = headers.get_all("Host", [])
        if len(hosts) > 1 or (named and not hosts):
            return Refusal(400, "a request has one Host header")
        host = hosts[0].strip() if hosts else ""
        name = _name_of(host)
        if hosts and (name is None or not self.knows(name)):
            shown = ascii(host[:MAX_SHOWN])
            return Refusal(421, f"this site is not known as {shown}: start it with --allow-host NAME")
        if method in ("GET", "HEAD") or self._is_own(headers, host):
            return None
        return Refusal(403, "forms are taken from this site's own pages: open its front page and click there")

    def _is_own(self, headers: Message, host: str) -> bool:
        """Return whether a form comes from a page of this site, as far as the browser says."""
        origins = headers.get_all("Origin", [])
        if not origins:  # programs and old browsers send no origin
            return headers.get("Sec-Fetch-Site", "same-origin") in ("same-origin", "none")
        try:
            parts = urlsplit(origins[0].strip())
            behind_proxy = _plain(parts.hostname or "") in self._also
        except ValueError:
            return False
        return (
            len(origins) == 1
            and parts.scheme in ("http", "https")
            and (behind_proxy or parts.netloc.lower() == host.lower())
        )


def is_address(name: str) -> bool:
    """Return whether a name is an address of IPv4 or IPv6."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")


def _name_of(host: str) -> str | None:
    """Return the name in a Host header, without the port; None where that cannot be read."""
    if not _HOST.fullmatch(host):
        return None
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return None
    return parts.hostname


def _checked(name: str) -> str:
    if _name_of(name) != _plain(name) and not is_address(name):
        raise UsageError(
            f"cannot allow host {name!r}: give a name without scheme and port, as in shop.example.org"
        )
    return _plain(name)
