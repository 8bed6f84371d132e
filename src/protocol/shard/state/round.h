// The round of a piece that is in progress: what each contributor has pushed, and which span of the
// verdict it wants. A round only collects; rounds.h opens and ends it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/status.h"
#include "src/base/types.h"
#include "src/protocol/shard/state/process_sets.h"
#include "src/wire/data.h"

namespace byteps::protocol {

// The contribution of one slot to the round, and the span of the verdict that the slot wants.
struct Contribution {
  BufferRef buffer;  // the bytes as pushed; empty in an overlay, whose bytes are in overlay()
  uint32_t bytes = 0;
  uint32_t want_offset = 0;
  uint32_t want_bytes = 0;
  int32_t priority = 0;
  bool begun = false;  // its payload is being received
  bool arrived = false;
  bool idle = false;     // wants nothing of the verdict, and does not have all of it either
  bool aborted = false;  // counts as arrived, but has brought nothing

  bool HasAll() const { return arrived && want_bytes == 0 && !idle; }
};

// Fills in what a push's header and the size of its payload say about the contribution.
void Announce(Contribution& contribution, const wire::DataHeader& header, size_t payload_bytes);

// A round is recycled: Begin makes it a new one. One thread at a time; steady state allocates
// nothing.
class Round {
 public:
  // Begins the round with its first push. `serial`: no other round of this shard has it. `slots`:
  // the number of slots of the generation. `set` must outlive the round.
  void Begin(uint64_t serial, const wire::DataHeader& header, ProcessSet& set, Slot slots);
  // Gives the round's buffers back, and forgets its set.
  void End();

  uint64_t serial() const { return serial_; }
  const wire::PieceRef& ref() const { return ref_; }
  Combine combine() const { return combine_; }
  DataType dtype() const { return dtype_; }
  uint32_t piece_bytes() const { return piece_bytes_; }
  uint8_t codec() const { return codec_; }  // of the contributions
  ProcessSet& set() const { return *set_; }
  const std::vector<Contribution>& contributions() const { return contributions_; }  // by slot
  bool HasArrived(Slot slot) const { return contributions_[slot].arrived; }
  const std::vector<Slot>& order_of_arrival() const { return order_of_arrival_; }
  uint64_t pushed_bytes() const { return pushed_bytes_; }
  // Returns the buffer of the whole piece in an overlay.
  const BufferRef& overlay() const { return overlay_; }

  // Counts the members of the set and the view that have not pushed.
  uint32_t missing() const { return missing_; }
  void SetMissing(uint32_t missing) { missing_ = missing; }

  // Returns where the payload of a push goes, because the payload begins to come in. `keep` keeps
  // that memory alive, even if the round ends. REQUIRES: !HasArrived(from).
  ByteSpan PlaceOf(Slot from, const wire::DataHeader& header, size_t payload_bytes,
                   BufferPool& pool, BufferRef& keep);
  // Notes that the payload is here. `awaited`: `from` is one of the missing members.
  void Arrive(Slot from, const wire::DataHeader& header, size_t payload_bytes, bool awaited);
  // Notes that `from` asks for an error instead of pushing. Its part will never come, so the round
  // can only end in an error. `awaited`: see Arrive. REQUIRES: !HasArrived(from).
  void ArriveAborted(Slot from, const wire::DataHeader& header, bool awaited);
  bool LacksAPart() const { return lacks_a_part_; }
  // Drops the begun push of `from`, because the connection broke before the payload was here.
  void DropBegun(Slot from);

  // Takes the error that a member asks for. The first error wins.
  void Fail(const Status& why);
  const std::optional<Status>& failure() const { return failure_; }

 private:
  uint64_t serial_ = 0;
  wire::PieceRef ref_;
  Combine combine_ = Combine::kSum;
  DataType dtype_ = DataType::kFloat32;
  uint32_t piece_bytes_ = 0;
  uint8_t codec_ = 0;
  ProcessSet* set_ = nullptr;
  uint32_t missing_ = 0;
  uint64_t pushed_bytes_ = 0;
  BufferRef overlay_;
  std::vector<Contribution> contributions_;
  std::vector<Slot> order_of_arrival_;
  std::optional<Status> failure_;
  bool lacks_a_part_ = false;
};

}  // namespace byteps::protocol
