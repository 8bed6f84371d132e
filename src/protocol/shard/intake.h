// The push or verdict of each member whose payload is being received, and what becomes of it when
// it is here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/types.h"
#include "src/wire/data.h"

namespace byteps::protocol {

enum class Fate : uint8_t {
  kContribution,  // lands in its round
  kVerdict,       // is adopted
  kNoRoom,        // there is no memory for it: its round ends in an error
  kRepeat,        // of what is decided or whole: read, and answered again if it is decided
  kDropped,       // does not count
  kPostponed,     // waits for its view
};

struct Incoming {
  Fate fate = Fate::kDropped;
  wire::DataHeader header;
  size_t payload_bytes = 0;
  BufferRef keep;             // where the payload lands; outlives the round that it was meant for
  ByteSpan place;             // in `keep`; empty when nobody will look at the payload
  uint64_t round_serial = 0;  // of the round that it contributes to
};

// One thread at a time; steady state allocates nothing.
class Intake {
 public:
  // The slots of the generation. `begins`: nothing is being received.
  void SetSlots(Slot slots, bool begins) {
    if (begins) frames_.clear();
    frames_.resize(slots);
  }

  bool IsReceiving(Slot from) const { return frames_[from].receiving; }
  // Where to write down what becomes of the next payload of `from`; it is empty.
  // REQUIRES: !IsReceiving(from).
  Incoming& Next(Slot from) {
    frames_[from].incoming.fate = Fate::kDropped;
    return frames_[from].incoming;
  }
  // A header is here, and Next is filled in. Where its payload goes, also one that nobody will look
  // at; valid until End.
  ByteSpan Begin(Slot from) {
    Frame& frame = frames_[from];
    frame.receiving = true;
    Fate fate = frame.incoming.fate;
    bool lands = fate != Fate::kRepeat && fate != Fate::kDropped && fate != Fate::kNoRoom;
    if (lands) return frame.incoming.place;
    if (frame.scratch.size() < frame.incoming.payload_bytes) {
      frame.scratch.resize(frame.incoming.payload_bytes);
    }
    return ByteSpan(frame.scratch.data(), frame.incoming.payload_bytes);
  }
  // The payload is here, or will never come. What is returned is valid until Forget.
  // REQUIRES: IsReceiving(from).
  const Incoming& End(Slot from) {
    frames_[from].receiving = false;
    return frames_[from].incoming;
  }
  // Gives the memory back: nobody needs the last payload any more.
  void Forget(Slot from) {
    frames_[from].incoming.fate = Fate::kDropped;
    frames_[from].incoming.keep = BufferRef();
    frames_[from].incoming.place = ByteSpan();
  }

 private:
  struct Frame {
    bool receiving = false;
    Incoming incoming;
    std::vector<std::byte> scratch;
  };
  std::vector<Frame> frames_;  // by slot
};

}  // namespace byteps::protocol
