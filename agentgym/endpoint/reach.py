"""Whether anything listens where an endpoint is named: found in seconds, without sending anything."""

from __future__ import annotations

import socket
import threading
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from agentgym.endpoint.errors import EndpointError
from agentgym.endpoint.spec import EndpointSpec

SECONDS = 3.0
"""Longest time to connect, in seconds, the look-up of the host's name included."""


def check_reachable(spec: EndpointSpec, seconds: float = SECONDS) -> None:
    """Open a connection to an endpoint, and close it.

    No request is sent: a slow or busy server counts as reachable. Behind a proxy nothing is checked.
    """
    parts = urlsplit(spec.url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    if {parts.scheme, "all"} & getproxies().keys() and not proxy_bypass(f"{host}:{port}"):
        return
    found = [f"no connection within {seconds:g} s"]

    def knock() -> None:
        try:
            socket.create_connection((host, port), seconds).close()
            found[0] = ""
        except OSError as error:
            found[0] = error.strerror or str(error)

    thread = threading.Thread(target=knock, daemon=True)  # looking up a name has no time limit
    thread.start()
    thread.join(seconds)
    if found[0]:
        raise EndpointError(
            f"no server answers at {spec.url} ({found[0]}): start it, or mend host and port in the URL; "
            "nothing was played"
        )
