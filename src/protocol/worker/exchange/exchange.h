// One exchange of an operation with the shards, as the front tells its lanes of it. An operation
// has one exchange of its bytes. If sizes differ by rank, an exchange of the sizes comes before it.
//
// The front makes the exchange. It changes neither the exchange nor the memory that the exchange
// names, until the lanes have let go of it. The lanes only read it, so several threads may read it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/operations/work.h"
#include "src/protocol/worker/exchange/device_memory.h"

namespace byteps::protocol {

using operations::Spans;

// The facts about a tensor that the shards and each later owner of a piece must know.
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
  // Returns the spans of the rank at this place of the process set. Only sizes and offsets count,
  // because the memory of that rank is elsewhere.
  virtual Spans SpansOfPlace(uint32_t number, uint32_t /*place*/) const { return SpansOf(number); }
};

struct Exchange {
  uint64_t serial = 0;    // no other exchange of this worker has it
  std::string_view name;  // name of the tensor, for messages
  TensorFacts tensor;
  uint64_t use = 0;    // use of the name; with an attempt it is a round (wire/round.h)
  uint32_t order = 0;  // order among tensors of equal priority
  int32_t priority = 0;
  // The pieces have the numbers first_piece ... first_piece + count - 1.
  uint32_t first_piece = 0;
  uint32_t count = 0;
  const std::vector<ShardId>* homes = nullptr;  // home of each piece, by number
  const SpanSource* spans = nullptr;
  Memory memory =
      Memory::kHost;    // memory of the spans; sizes that are told first are always in the host's
  DeviceMemory device;  // kDevice: whose memory it is
  // The member without whose part the result is undefined.
  std::optional<Slot> root;
  // The reason why this rank has no input (Operation::no_input); null: it has one. The error is
  // asked for in place of every piece.
  const Status* no_input = nullptr;
  // Pieces may be pushed again, with the same bytes.
  bool atomic = false;
  // A rank that wants nothing of a piece waits for the news that the ranks that want it have it.
  bool others_wait = false;

  uint32_t end() const { return first_piece + count; }
};

}  // namespace byteps::protocol
