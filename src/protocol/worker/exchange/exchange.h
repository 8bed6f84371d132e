// One exchange of an operation with the shards: what the front tells its lanes of it. An operation
// has one exchange of its bytes, and before it one of its sizes where these differ by rank.
//
// The front makes it and changes nothing of it, nor of the memory it names, until the lanes have
// let go of it; they only read it. So it may be read from several threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "src/base/types.h"
#include "src/operations/work.h"

namespace byteps::protocol {

using operations::Spans;

// What the shards, and whoever owns a piece later, must know of a tensor.
struct TensorFacts {
  TensorId id = 0;
  Combine combine = Combine::kSum;
  DataType dtype = DataType::kFloat32;
  uint8_t codec = 0;
  uint32_t process_set = 0;
};

// Says where a piece's bytes lie. Pure; may be called from any thread while its exchange is open.
class SpanSource {
 public:
  virtual ~SpanSource() = default;
  virtual Spans SpansOf(uint32_t number) const = 0;
  // What the rank at this place of the process set brings and wants: sizes and offsets alone count,
  // for its memory is elsewhere.
  virtual Spans SpansOfPlace(uint32_t number, uint32_t /*place*/) const { return SpansOf(number); }
};

struct Exchange {
  uint64_t serial = 0;    // no other exchange of this worker has it
  std::string_view name;  // of the tensor, for messages
  TensorFacts tensor;
  uint64_t use = 0;    // of its name; with an attempt it is a round (wire/round.h)
  uint32_t order = 0;  // among tensors of equal priority
  int32_t priority = 0;
  // Its pieces are those with the numbers first_piece ... first_piece + count - 1.
  uint32_t first_piece = 0;
  uint32_t count = 0;
  const std::vector<ShardId>* homes = nullptr;  // by number
  const SpanSource* spans = nullptr;
  Memory memory =
      Memory::kHost;  // of the spans; sizes that are told first are always in the host's
  // Without this member's part the result is nobody's bytes.
  std::optional<Slot> root;
  // Pieces may go again, with the same bytes.
  bool atomic = false;
  // Ranks that want nothing of a piece wait for the news that those who do have it.
  bool others_wait = false;

  uint32_t end() const { return first_piece + count; }
};

}  // namespace byteps::protocol
