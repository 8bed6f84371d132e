"""The web page of a job of this user, on a port of the loopback address.

Other users of the machine reach the port, too: so each path begins with a random word, which is in
the address that the user is told.
"""

from __future__ import annotations

import http.client
import http.server
import secrets

from byteps.cli.user_jobs import UserJob
from byteps.common.job.launch_environment import LOOPBACK


class LivePage:
    """Passes requests on to the job. `serve` ends with Ctrl-C."""

    def __init__(self, job: UserJob) -> None:
        word = secrets.token_urlsafe(16)

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                _, first, rest = [*self.path.split("/", 2), "", ""][:3]
                if not secrets.compare_digest(first.encode(), word.encode()):
                    self.send_error(http.client.NOT_FOUND)
                    return
                try:
                    status, kind, content = job.page(f"/{rest}")
                except (OSError, http.client.HTTPException):
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

        self._server = http.server.ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://{LOOPBACK}:{self._server.server_address[1]}/{word}/live"

    def serve(self) -> None:
        """Answer until Ctrl-C, or until `close`."""
        self._server.serve_forever()

    def close(self) -> None:
        """Answer nobody any more. REQUIRES: `serve` runs on another thread, or has ended."""
        self._server.shutdown()
        self._server.server_close()
