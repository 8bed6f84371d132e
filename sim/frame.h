// The frames of the virtual network, and their pool: a large job has hundreds of thousands of
// frames on their way.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/types.h"
#include "src/wire/control.h"
#include "src/wire/data.h"

namespace byteps::sim {

enum class FrameType : uint8_t {
  kControl,
  kPush,
  kAnswer,
  kWant,
  kAck,
  kStable,
  kVerdict,
  kHave,
  kResync,
  kAbort,
  kProcessSet,
  kJoined,
  kHello,    // stands for the handshake: header.home is the slot, header.count the incarnation
  kWelcome,  // header.status: let in or not
};

using FrameId = uint32_t;
inline constexpr FrameId kNoFrame = UINT32_MAX;

struct Frame {
  FrameType type = FrameType::kControl;
  uint32_t wire_bytes = 0;
  uint32_t payload_bytes = 0;
  FrameId id = kNoFrame;    // its place in the pool
  FrameId next = kNoFrame;  // behind it in a queue
  wire::DataHeader header;  // push, answer, verdict, abort; of small frames only a number
  // The control message, pieces of a want, bitmap or reason; for a payload the bytes that MakeData
  // carries.
  std::vector<std::byte> bytes;

  // Returns the urgency; higher ones leave first. Frames without a payload overtake frames with
  // one.
  int64_t urgency() const {
    bool data = type == FrameType::kPush || type == FrameType::kAnswer;
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
// Makes a frame with a data header. `carry_bytes`: with the payload. Without it the frame has the
// parts by which the protocol decides, the receipt or the errors, and only the length of a tensor's
// bytes.
void MakeData(Frame& frame, FrameType type, const wire::DataHeader& header, ConstByteSpan payload,
              bool carry_bytes);
void MakeWant(Frame& frame, const std::vector<wire::PieceRef>& pieces);
// Makes a have frame.
void MakeHave(Frame& frame, uint64_t epoch, const std::vector<wire::HeldPiece>& pieces);
// Makes an abort in place of the push with this header.
void MakeAbort(Frame& frame, const wire::DataHeader& push, const std::string& why);
// Makes the frame of a process set, whose bytes are the bitmap.
void MakeProcessSet(Frame& frame, const wire::Progress& number, const std::vector<Slot>& slots);
// Makes a frame that is only a header: ack, stable, resync, joined, hello, welcome.
void MakeSmall(Frame& frame, FrameType type, const wire::DataHeader& header);

// Decode a frame for the receiver. REQUIRES: a frame of that kind.
wire::Message MessageOf(const Frame& frame);
wire::DataHeader HeaderOf(const Frame& frame);
std::vector<wire::PieceRef> PiecesOf(const Frame& frame);
std::vector<wire::HeldPiece> HeldOf(const Frame& frame);
std::string TextOf(const Frame& frame);  // of an abort

// Copy a payload, which arrives in two parts: a connection that is lost between them leaves half of
// it behind. An empty place takes nothing, and bytes that the frame does not carry leave the place
// unchanged.
void TakeFirstPart(const Frame& frame, ByteSpan place);
void TakeRest(const Frame& frame, ByteSpan place);

// Describes a frame for the event log.
std::string Describe(const Frame& frame);

}  // namespace byteps::sim
