// The kinds of frames. docs/wire-format.md describes each one.
#pragma once

#include <cstdint>

namespace byteps::wire {

// Part of the wire format: never renumber.
enum class FrameKind : uint8_t {
  kHello = 1,        // opens a connection: the initiator and the job (handshake.h)
  kWelcome = 2,      // the acceptor's verdict and proof
  kProof = 3,        // the initiator's proof
  kControl = 4,      // a control message (control.h)
  kPush = 5,         // worker to owner: a contribution (data.h)
  kAnswer = 6,       // owner to worker: a verdict (data.h)
  kWant = 7,         // owner to worker: pieces it waits for (data.h)
  kAck = 8,          // worker to owner, only when idle: answers received so far (data.h)
  kStable = 9,       // owner to worker, only when idle: answers that all members have (data.h)
  kVerdict = 10,     // worker to owner: this was decided before you owned it (data.h)
  kHave = 11,        // worker to owner: rounds whose verdict it holds, and that are stable (data.h)
  kResync = 12,      // worker to owner: it has sent all that it holds, for a view (data.h)
  kAbort = 13,       // worker to owner: instead of a push, asks for an error (data.h)
  kProcessSet = 14,  // worker to owner: the ranks of a process set (data.h)
  kJoined = 15,      // worker to owner: it takes no part in rounds until all have joined (data.h)
  kChallenge = 16,   // the acceptor's nonce, for the initiator's proof (handshake.h)
  kBound = 17,       // the initiator has accepted the welcome; the connection is bound after it
};

}  // namespace byteps::wire
