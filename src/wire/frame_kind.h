// The kinds of frames. docs/wire-format.md describes each one.
#pragma once

#include <cstdint>

namespace byteps::wire {

// Part of the wire format: never renumber.
enum class FrameKind : uint8_t {
  kHello = 1,    // opens a connection: who I am, which job (handshake.h)
  kWelcome = 2,  // the acceptor's side of the handshake
  kProof = 3,    // the initiator's proof; the connection is bound after it
  kControl = 4,  // a control message (control.h)
  kPush = 5,     // worker to owner: a contribution (data.h)
  kAnswer = 6,   // owner to worker: a verdict (data.h)
  kWant = 7,     // owner to worker: pieces it waits for (data.h)
  kAck = 8,      // worker to owner, only when idle: answers received so far (data.h)
};

}  // namespace byteps::wire
