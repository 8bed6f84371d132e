// What comes in over a lane's connections: gives each answer's payload a place, postpones answers
// of a view that is not here yet, and forgets what is not wanted any more. What an answer means is
// its target's business. One thread at a time.
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
  // Where the payload of an answer lands.
  enum class Landing : uint8_t {
    kNowhere,     // it is read and thrown away
    kInPlace,     // where its bytes are wanted
    kStaged,      // in a buffer first
    kNumberOnly,  // it has none: the answer only says its number
  };
  struct Place {
    Landing landing = Landing::kNowhere;
    ByteSpan bytes;  // kInPlace only
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
    // kProtocol: no correct shard sends that; the connection is to be closed.
    virtual Result<Place> PlaceFor(ShardId from, const wire::DataHeader& header,
                                   size_t payload_bytes) = 0;
    // It is here, wherever it was to land.
    virtual void Take(ShardId from, const Answer& answer, Time now) = 0;
  };

  AnswerReader(BufferPool& pool, Arithmetic& arithmetic, Target& target)
      : pool_(pool), arithmetic_(arithmetic), target_(target) {}

  void Begin(size_t shards) { links_ = std::vector<Link>(shards); }
  // The connection is gone, or another one takes its place.
  void Reset(ShardId shard);

  // Where the payload goes, valid until OnPayload of the same shard. Answers of a later view than
  // `epoch`, and what comes behind them, wait.
  Result<ByteSpan> OnHeader(ShardId from, const wire::DataHeader& header, size_t payload_bytes,
                            uint64_t epoch);
  void OnPayload(ShardId from, uint64_t epoch, Time now);
  // A view is here: what waited for it is taken. An answer that no correct shard gives is dropped;
  // the operation then waits for its owner like any other.
  void TakePostponed(ShardId from, uint64_t epoch, Time now);

  // If an answer about this piece is on its way into its place: it is ignored from now on, and this
  // returns true. Nothing may be put there any more.
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
    bool postpones = false;  // what is being received
    Answer incoming;
    std::vector<std::byte> scratch;
    std::deque<Postponed> postponed;
  };
  Result<ByteSpan> Assign(ShardId from, Answer& answer, std::vector<std::byte>& scratch);

  BufferPool& pool_;
  Arithmetic& arithmetic_;
  Target& target_;
  std::vector<Link> links_;  // by shard
};

}  // namespace byteps::protocol
