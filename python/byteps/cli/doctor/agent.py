"""The doctor's hand on a host: takes orders as lines of JSON and answers each with one.

`python -m byteps.cli.doctor.agent`. It ends when its input does, so nothing of it is left when the
doctor is gone. The first order has the token that lets others in.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from typing import Any

from byteps.cli.doctor import machine, rdma, small_job, software, wire

Order = dict[str, Any]


class Agent:
    """What an agent has: who may connect to it, and the services of one small job."""

    def __init__(self) -> None:
        self._token = ""
        self._responder: wire.Responder | None = None
        self._services: small_job.Services | None = None
        self._orders: dict[str, Callable[[Order], Order]] = {
            "facts": self._facts,
            "listen": self._listen,
            "reach": self._reach,
            "stream": self._stream,
            "serve": self._serve,
            "push_pull": self._push_pull,
            "end_job": self._end_job,
            "sum_rate": self._sum_rate,
        }

    def answer(self, order: Order) -> Order:
        """Do what the order says; an error is an answer, too."""
        try:
            return self._orders[order["do"]](order)
        except OSError as error:
            text = wire.explain(error, order.get("host", "?"), int(order.get("port", 0)))
            return {"error": text if "host" in order else str(error)}
        except (RuntimeError, ValueError) as error:
            return {"error": str(error)}

    def close(self) -> None:
        """End what runs."""
        self._end_job({})
        if self._responder is not None:
            self._responder.close()

    def _facts(self, _: Order) -> Order:
        here: Order = machine.facts()
        found: Order = software.facts()
        ways = rdma.facts(found["libraries"]["verbs"], here["locked_memory_bytes"])
        return {"machine": here, "software": found, "rdma": ways}

    def _listen(self, order: Order) -> Order:
        self._token = order["token"]
        self._responder = wire.Responder(self._token, order["on"])
        return {"port": self._responder.port}

    def _reach(self, order: Order) -> Order:
        return {"round_trip_us": wire.round_trip_us(order["host"], order["port"], self._token)}

    def _stream(self, order: Order) -> Order:
        host, port = order["host"], order["port"]
        return {"mbit": wire.send_rate_mbit(host, port, self._token, order["seconds"])}

    def _serve(self, order: Order) -> Order:
        transport = order.get("transport", "tcp")
        self._services = small_job.Services(order["here"], 1, order["on"], transport)
        return {"settings": self._services.settings}

    def _push_pull(self, order: Order) -> Order:
        nbytes = small_job.tensor_bytes(order["expected_mbit"])
        return {"mbit": small_job.push_pull_mbit(order["settings"], nbytes, order["seconds"])}

    def _end_job(self, _: Order) -> Order:
        if self._services is not None:
            self._services.end()
            self._services = None
        return {}

    def _sum_rate(self, order: Order) -> Order:
        return {"mbit": small_job.sum_rate_mbit(order["seconds"])}


def main() -> None:
    """Answer until the input ends."""
    agent = Agent()
    try:
        with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
            for line in sys.stdin:
                print(json.dumps(agent.answer(json.loads(line))), flush=True)
    finally:
        agent.close()


if __name__ == "__main__":
    main()
