// The frames of the virtual network, and their pool: a large job has hundreds of thousands of
// frames on their way.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/types.h"
#include "src/wire/control.h"
#include "src/wire/frame.h"

namespace byteps::sim {

using FrameId = uint32_t;
inline constexpr FrameId kNoFrame = UINT32_MAX;

struct Frame {
  wire::FrameKind kind = wire::FrameKind::kControl;
  uint32_t wire_bytes = 0;
  uint32_t payload_bytes = 0;
  FrameId id = kNoFrame;    // its place in the pool
  FrameId next = kNoFrame;  // behind it in a queue
  wire::DataHeader header;  // push, answer, verdict, abort; of small frames only a number
  // The control message, or the payload of a small frame; for a payload of a piece the bytes that
  // Pack carries.
  std::vector<std::byte> bytes;

  // Returns the urgency; higher ones leave first. Frames without a payload overtake frames with
  // one.
  int64_t urgency() const {
    bool data = kind == wire::FrameKind::kPush || kind == wire::FrameKind::kAnswer;
    return data ? header.priority : INT64_MAX;
  }
};

// One thread. A frame stays at its place until it is given back. A new one is not cleared.
class FramePool {
 public:
  Frame& Take();
  void GiveBack(FrameId id) { free_.push_back(id); }
  Frame& operator[](FrameId id) { return chunks_[id / kChunk][id % kChunk]; }

 private:
  static constexpr FrameId kChunk = 1024;
  std::vector<std::unique_ptr<Frame[]>> chunks_;
  std::vector<FrameId> free_;
};

void MakeControl(Frame& frame, const wire::Message& message);
// `carry_bytes`: with the payload. Without it the frame has the parts by which the protocol
// decides, the receipt or the errors, and only the length of a tensor's bytes.
void Pack(Frame& frame, const wire::DataFrame& data, bool carry_bytes);
// Gives the frame a length of the simulator's own: most headers count 8 bytes, the header of a have
// counts none. The length decides how long a frame is under way, and so every trace.
void Pack(Frame& frame, const wire::Frame& what);
// Makes a hello or a welcome, which stand for the handshake. Hello: header.home is the slot,
// header.count the incarnation. Welcome: header.status is kOk if the shard lets the worker in.
void MakeGreeting(Frame& frame, wire::FrameKind kind, const wire::DataHeader& header);

// Decode a frame for the receiver. REQUIRES: a frame of that kind.
wire::Message MessageOf(const Frame& frame);
wire::DataHeader HeaderOf(const Frame& frame);  // of a push, an answer, a verdict or an abort
wire::Frame Unpack(const Frame& frame);

// Copy a payload, which arrives in two parts: a connection that is lost between them leaves half of
// it behind. An empty place takes nothing, and bytes that the frame does not carry leave the place
// unchanged.
void TakeFirstPart(const Frame& frame, ByteSpan place);
void TakeRest(const Frame& frame, ByteSpan place);

// Describes a frame for the event log.
std::string Describe(const Frame& frame);

}  // namespace byteps::sim
