"""The web page of a job of this user, on a port of the loopback address.

Other users of the machine reach the port, too: so each path begins with a random word, which is in
the address that the user is told.
"""

from __future__ import annotations

import http.client
import http.server
import secrets
import sys
import threading
from typing import Any

from byteps.cli.user_jobs import UserJob
from byteps.common.job.launch_environment import LOOPBACK

_ASK_LIMIT_S = 5.0
_CONNECTIONS_MAX = 16


class _Server(http.server.ThreadingHTTPServer):
    """Has a bounded number of connections: who comes when all are taken is closed at once."""

    daemon_threads = True

    def __init__(self, handler: type[http.server.BaseHTTPRequestHandler]) -> None:
        super().__init__((LOOPBACK, 0), handler)
        self._free = threading.BoundedSemaphore(_CONNECTIONS_MAX)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that goes in the middle of an answer."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class LivePage:
    """Passes requests on to the job. `serve` ends with Ctrl-C."""

    def __init__(self, job: UserJob) -> None:
        word = secrets.token_urlsafe(16)

        class Handler(http.server.BaseHTTPRequestHandler):
            timeout = _ASK_LIMIT_S  # of each read and write

            def do_GET(self) -> None:
                _, first, rest = [*self.path.split("/", 2), "", ""][:3]
                if not secrets.compare_digest(first.encode(), word.encode()):
                    self.send_error(http.client.NOT_FOUND)
                    return
                try:
                    status, kind, content = job.page(f"/{rest}")
                except (OSError, http.client.HTTPException, ValueError):
                    self.send_error(http.client.BAD_GATEWAY, "the job does not answer any more")
                    return
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Cache-Control", "no-store")
                self.send_header("Referrer-Policy", "no-referrer")
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Say nothing: the page asks twice a second."""

        self._server = _Server(Handler)
        self.address = f"http://{LOOPBACK}:{self._server.server_address[1]}/{word}/live"

    def serve(self) -> None:
        """Answer until Ctrl-C, or until `close`."""
        self._server.serve_forever()

    def close(self) -> None:
        """Answer nobody any more. REQUIRES: `serve` runs on another thread, or has ended."""
        self._server.shutdown()
        self._server.server_close()
