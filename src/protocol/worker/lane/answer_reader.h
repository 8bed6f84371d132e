// Receives the answers on a lane's connections. It gives each answer's payload a place, postpones
// answers of a view that is not here yet, and drops answers that are not wanted any more. The
// target of a call decides what an answer means. One thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/status.h"
#include "src/base/time.h"
#include "src/protocol/arithmetic.h"
#include "src/wire/data.h"

namespace byteps::protocol {

class AnswerReader {
 public:
  // Says where the payload of an answer goes.
  enum class Landing : uint8_t {
    kNowhere,     // it is read and dropped
    kInPlace,     // into the memory that wants the bytes
    kStaged,      // first into a buffer
    kNumberOnly,  // it has no payload: the answer only tells its number
  };
  struct Place {
    Landing landing = Landing::kNowhere;
    ByteSpan bytes;              // kInPlace only
    BufferPool* pool = nullptr;  // kStaged only; null: the lane's
  };
  struct Answer {
    wire::DataHeader header;
    size_t payload_bytes = 0;
    Landing landing = Landing::kNowhere;
    BufferRef staged;  // kStaged: the payload
  };
  class Target {
   public:
    virtual ~Target() = default;
    // Returns the place for the payload. kProtocol: a correct shard never sends this answer, so the
    // caller closes the connection.
    virtual Result<Place> PlaceFor(ShardId from, const wire::DataHeader& header,
                                   size_t payload_bytes) = 0;
    // Takes the answer, because its payload is at its place.
    virtual void Take(ShardId from, const Answer& answer, Time now) = 0;
  };

  AnswerReader(BufferPool& pool, Arithmetic& arithmetic) : pool_(pool), arithmetic_(arithmetic) {}

  void Begin(size_t shards) { links_ = std::vector<Link>(shards); }
  // Drops what was received on the connection, because it is gone, or another one takes its place.
  void Reset(ShardId shard);

  // Returns where the payload goes; the place is valid until OnPayload of the same shard. An answer
  // of a later view than `epoch` waits, and so do all answers behind it.
  Result<ByteSpan> OnHeader(ShardId from, const wire::DataHeader& header, size_t payload_bytes,
                            uint64_t epoch, Target& target);
  void OnPayload(ShardId from, uint64_t epoch, Time now, Target& target);
  // Takes the answers that waited for a view, because the view is here. Drops an answer that a
  // correct shard never gives; the operation then waits for its owner like any other.
  void TakePostponed(ShardId from, uint64_t epoch, Time now, Target& target);

  // Ignores from now on an answer about this piece whose payload is coming into its place. Returns
  // true if there was one: nothing may be put into that place any more.
  bool Divert(TensorId tensor, uint32_t number);

 private:
  struct Postponed {
    wire::DataHeader header;
    BufferRef payload;
    size_t payload_bytes = 0;
    bool complete = false;
  };
  struct Link {
    bool receiving = false;
    bool postpones = false;  // the answer that is being received waits
    Answer incoming;
    std::vector<std::byte> scratch;
    std::deque<Postponed> postponed;
  };
  Result<ByteSpan> Assign(ShardId from, Answer& answer, std::vector<std::byte>& scratch,
                          Target& target);

  BufferPool& pool_;
  Arithmetic& arithmetic_;
  std::vector<Link> links_;  // by shard
};

}  // namespace byteps::protocol
