// A control message is one of these values. On the wire it is a FlatBuffer (control.fbs), which
// only this codec sees. Each member talks to the coordinator over one connection. Code that needs a
// few kinds of messages includes only the header of its subject.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/wire/accounts.h"
#include "src/wire/membership.h"
#include "src/wire/names.h"

namespace byteps::wire {

// control.cc defines copy, move, comparison and destruction. The tables of so many kinds would cost
// a second of compilation in every file that holds messages.
struct Message
    : std::variant<Join, Refused, Waiting, Propose, Promise, Commit, Query, Report, Known, Declare,
                   Declared, DeclareFailed, Sync, GoOn, Leave, Alive, Suspect, JobOver, Overdue,
                   Unbegun, StillKnown, Rates, LetGo, Forgotten> {
  using variant::variant;
  Message(const Message& other);
  Message(Message&& other) noexcept;
  Message& operator=(const Message& other);
  Message& operator=(Message&& other) noexcept;
  ~Message();
  friend bool operator==(const Message& a, const Message& b);
};

// The largest control message a receiver accepts.
inline constexpr size_t kControlBytesMax = size_t{16} << 20;
// Limits for a sender that divides its message into parts: the bytes of one part, and the most
// bytes that a use, or the number of a rank, takes of it.
inline constexpr size_t kControlPartBytes = size_t{1} << 20;
inline constexpr size_t kControlUseBytes = 32;

std::vector<std::byte> EncodeControl(const Message& message);

// Reads a message. kProtocol: the bytes are no message. Never reads outside `bytes`.
Result<Message> DecodeControl(ConstByteSpan bytes);

}  // namespace byteps::wire
