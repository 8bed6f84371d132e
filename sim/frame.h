// What travels on the virtual network, and a pool that frames come from: a large job has hundreds
// of thousands of them on their way.
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
  kGroup,
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
  // Control message, pieces of a want, bitmap, reason; of a payload what MakeData carries.
  std::vector<std::byte> bytes;

  // Higher ones leave first. What carries no payload overtakes what does.
  int64_t urgency() const {
    bool data = type == FrameType::kPush || type == FrameType::kAnswer;
    return data ? header.priority : INT64_MAX;
  }
};

// One thread. Frames stay where they are until they are given back; a new one is not cleared.
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
// `carry_bytes`: the payload too. Without, it has what the protocol decides by, which is the
// receipt or the errors, and only the length of a tensor's bytes.
void MakeData(Frame& frame, FrameType type, const wire::DataHeader& header, ConstByteSpan payload,
              bool carry_bytes);
void MakeWant(Frame& frame, const std::vector<wire::PieceRef>& pieces);
// A frame of references; `epoch` for a have.
void MakeHave(Frame& frame, uint64_t epoch, const std::vector<wire::HeldPiece>& pieces);
// `push` is the header of the push that it stands for.
void MakeAbort(Frame& frame, const wire::DataHeader& push, const std::string& why);
// Its bytes are the bitmap.
void MakeGroup(Frame& frame, const wire::Progress& number, const std::vector<Slot>& slots);
// A frame that is only a header: ack, stable, resync, joined, hello, welcome.
void MakeSmall(Frame& frame, FrameType type, const wire::DataHeader& header);

// What the receiver decodes. REQUIRES: a frame of that kind.
wire::Message MessageOf(const Frame& frame);
wire::DataHeader HeaderOf(const Frame& frame);
std::vector<wire::PieceRef> PiecesOf(const Frame& frame);
std::vector<wire::HeldPiece> HeldOf(const Frame& frame);
std::string TextOf(const Frame& frame);  // of an abort

// A payload arrives in two parts: a connection that is lost between them leaves half of it behind.
// An empty place takes nothing, and what is not carried stays as it was.
void TakeFirstPart(const Frame& frame, ByteSpan place);
void TakeRest(const Frame& frame, ByteSpan place);

// For the event log.
std::string Describe(const Frame& frame);

}  // namespace byteps::sim
