"""Chromium, driven through its debugging pipe: pages are opened, read and clicked as people do it."""

import base64
import json
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

from tests.waiting import wait_until

CHROMIUM = shutil.which("chromium")
PATIENCE = 300.0
"""Seconds that anything may take."""

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)

KEYS = {
    "Enter": (13, "\r"),
    "Space": (32, " "),
    "Tab": (9, ""),
    "Escape": (27, ""),
    "ArrowLeft": (37, ""),
    "ArrowUp": (38, ""),
    "ArrowRight": (39, ""),
    "ArrowDown": (40, ""),
    "Home": (36, ""),
    "End": (35, ""),
}
"""Code and text of the keys that tests press."""


class Browser:
    """One tab, with scripts turned off unless asked for."""

    def __init__(self, folder: Path, width: int = 900, height: int = 900, *, scripts: bool = False):
        down, self._commands = os.pipe()
        self._answers, up = os.pipe()
        # Chromium reads commands from descriptor 3 and writes answers to descriptor 4
        command = f'exec "$0" "$@" 3<&{down} 4>&{up}'
        flags = (*FLAGS, f"--user-data-dir={folder}", f"--window-size={width},{height}", "about:blank")
        self._process = subprocess.Popen(
            ["bash", "-c", command, CHROMIUM, *flags],
            pass_fds=(down, up),
            stderr=subprocess.DEVNULL,
        )
        os.close(down)
        os.close(up)
        self._count, self._buffer, self._session = 0, b"", None
        self.events: list[dict] = []
        """What Chromium reported by itself, in order: of the domains that were enabled."""
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            self.call("Page.enable")
            self.scripts(scripts)
            self.resize(width, height)
        except BaseException:
            self._end()
            raise

    def call(self, method: str, **parameters):
        """Send a command and return its result."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)

    def scripts(self, on: bool) -> None:
        """Turn the pages' own scripts on or off."""
        self.call("Emulation.setScriptExecutionDisabled", value=not on)

    def resize(self, width: int, height: int) -> None:
        """Set the size of the window, in CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def open(self, url: str) -> None:
        """Go to an address and wait for its page."""
        self._arrive(lambda: self.call("Page.navigate", url=url))

    def click(self, selector: str) -> None:
        """Click in the middle of an element with the mouse, and wait for the page that follows."""
        x, y = self._middle(selector)
        self._arrive(lambda: self._press(x, y))

    def type(self, selector: str, text: str) -> None:
        """Click into a field, empty it, and type."""
        self._press(*self._middle(selector))
        self.value(f"document.querySelector({json.dumps(selector)}).select()")
        self.call("Input.insertText", text=text)

    def enter(self) -> None:
        """Press the enter key, and wait for the page that follows."""
        self._arrive(lambda: self.press("Enter"))

    def press(self, name: str) -> None:
        """Press and release a key, on whatever page has the focus."""
        code, text = KEYS[name]
        key = {"key": " " if name == "Space" else name, "code": name, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", **key, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **key)

    def back(self) -> None:
        """Press the browser's back button."""
        history = self.call("Page.getNavigationHistory")
        before = history["entries"][history["currentIndex"] - 1]
        self._arrive(lambda: self.call("Page.navigateToHistoryEntry", entryId=before["id"]))

    def value(self, expression: str):
        """Evaluate an expression, as a person with developer tools would: the page itself has no scripts."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def screenshot(self, *, whole: bool = False) -> bytes:
        """Return a PNG of the window, or of the whole page."""
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(picture["data"])

    def close(self) -> None:
        """End Chromium."""
        self._session = None
        try:
            self.call("Browser.close")
            self._process.wait(timeout=PATIENCE)
        finally:
            self._end()

    def _end(self) -> None:
        """Leave nothing behind, or a later test is blamed for it."""
        self._process.kill()
        self._process.wait()
        os.close(self._commands)
        os.close(self._answers)

    def _press(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def _middle(self, selector: str) -> tuple[float, float]:
        place = self.value(
            f"(() => {{const e = document.querySelector({json.dumps(selector)}); if (!e) return null;"
            "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]})()"
        )
        if place is None:
            raise LookupError(f"no element {selector} on {self.value('location.href')}")
        return place[0], place[1]

    def _arrive(self, leave) -> None:
        """Do what leads to another page, and wait until that is loaded."""
        self.value("document.documentElement.setAttribute('data-left', '')")
        leave()
        ready = "document.readyState == 'complete' && !document.documentElement.hasAttribute('data-left')"

        def arrived() -> bool:
            with suppress(RuntimeError):  # the old page has gone and the new one is not there yet
                return bool(self.value(ready))
            return False

        wait_until(arrived, PATIENCE)

    def _receive(self):
        while b"\0" not in self._buffer:
            part = os.read(self._answers, 1 << 20)
            if not part:
                raise RuntimeError("Chromium has ended")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)
