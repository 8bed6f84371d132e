// A piece's round in progress: what each contributor has pushed, and which span of the verdict it
// wants. A round only collects; rounds.h opens and ends it.
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

// What one slot brings to the round and what it wants of the verdict.
struct Contribution {
  BufferRef buffer;  // as it came; of an overlay: none, its bytes are in the round's
  uint32_t bytes = 0;
  uint32_t want_offset = 0;
  uint32_t want_bytes = 0;
  int32_t priority = 0;
  bool begun = false;  // its payload comes in
  bool arrived = false;
  bool idle = false;     // wants nothing of the verdict, and has not all of it either
  bool aborted = false;  // it counts as arrived, but has brought nothing

  bool HasAll() const { return arrived && want_bytes == 0 && !idle; }
};

// Fills in what a push's header and its payload's size say of it.
void Announce(Contribution& contribution, const wire::DataHeader& header, size_t payload_bytes);

// Recycled: Begin makes it a new one. One thread at a time; steady state allocates nothing.
class Round {
 public:
  // The first push of it. `serial`: no other round of this shard has it. `slots`: those of the
  // generation. `set` outlives the round.
  void Begin(uint64_t serial, const wire::DataHeader& header, ProcessSet& set, Slot slots);
  // Gives its buffers back, and names no set any more.
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
  // Of an overlay: the whole piece.
  const BufferRef& overlay() const { return overlay_; }

  // Members of set and view that have not pushed.
  uint32_t missing() const { return missing_; }
  void SetMissing(uint32_t missing) { missing_ = missing; }

  // The payload of a push begins to come in: where it goes. `keep` holds the memory, whatever
  // becomes of the round. REQUIRES: !HasArrived(from).
  ByteSpan PlaceOf(Slot from, const wire::DataHeader& header, size_t payload_bytes,
                   BufferPool& pool, BufferRef& keep);
  // It is here. `awaited`: `from` is one of the missing.
  void Arrive(Slot from, const wire::DataHeader& header, size_t payload_bytes, bool awaited);
  // It asks for the error `why` instead. The first one wins; a round of which a part will never
  // come can only end in an error. `awaited` as above; REQUIRES: !HasArrived(from).
  void ArriveAborted(Slot from, const wire::DataHeader& header, bool awaited);
  bool LacksAPart() const { return lacks_a_part_; }
  // The connection broke before it was.
  void DropBegun(Slot from);

  // The error that somebody asks for: the first one wins.
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
