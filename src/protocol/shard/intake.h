// Per member: the push or verdict whose payload is being received, and what to do with it
// afterwards.
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
  kContribution,  // the payload goes into its round
  kVerdict,       // the shard adopts it
  kNoRoom,        // there is no memory for it: its round ends in an error
  kRepeat,        // the round is decided or has it: read it, and answer again if decided
  kDropped,       // it does not count
  kPostponed,     // it waits for its view
};

struct Incoming {
  Fate fate = Fate::kDropped;
  wire::DataHeader header;
  size_t payload_bytes = 0;
  BufferRef keep;             // memory of the payload; outlives the round that the payload is for
  ByteSpan place;             // in `keep`; empty if the payload is not used
  uint64_t round_serial = 0;  // serial of the round that it contributes to
};

// One thread at a time; steady state allocates nothing.
class Intake {
 public:
  // Sets the slots of the generation. `begins`: no payload is being received.
  void SetSlots(Slot slots, bool begins) {
    if (begins) frames_.clear();
    frames_.resize(slots);
  }

  bool IsReceiving(Slot from) const { return frames_[from].receiving; }
  // Returns the empty entry for the next payload of `from`. The caller fills it in. REQUIRES:
  // !IsReceiving(from).
  Incoming& Next(Slot from) {
    frames_[from].incoming.fate = Fate::kDropped;
    return frames_[from].incoming;
  }
  // Returns where the payload goes, because its header is here and Next is filled in. A payload
  // that is not used has a place, too. The place is valid until End.
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
  // Returns the entry of the payload, because the payload is here, or will never come. The entry is
  // valid until Forget. REQUIRES: IsReceiving(from).
  const Incoming& End(Slot from) {
    frames_[from].receiving = false;
    return frames_[from].incoming;
  }
  // Gives the memory of the last payload back, because it is not needed any more.
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
