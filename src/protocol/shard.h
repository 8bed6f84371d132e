// Shard: the owner of pieces. Collects the contributions to a piece's round, combines them in slot
// order when the last one is in, and answers every member.
//
// There is one kind of round for all operations: each member pushes a span of the piece (perhaps an
// empty one) and says which span of the verdict it wants; the contributions are reduced or
// overlaid; every member is answered. A shard knows no tensors' names, shapes or users.
//
// No I/O, no clock, no thread: one driver calls it, from one thread. Payloads are received straight
// into the places that OnPushHeader names. Buffers of `pool` must not outlive it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/ring.h"
#include "src/base/status.h"
#include "src/base/time.h"
#include "src/base/types.h"
#include "src/protocol/arithmetic.h"
#include "src/wire/control.h"
#include "src/wire/data.h"

namespace byteps::protocol {

// What a shard asks of its driver. No call comes back into the shard.
class ShardDriver {
 public:
  virtual ~ShardDriver() = default;
  // Sends a verdict; `payload` lives as long as `keep`.
  virtual void SendAnswer(Slot to, const wire::DataHeader& header, ConstByteSpan payload,
                          BufferRef keep) = 0;
  // Names pieces that are waited for; they pass the receiver's credit.
  virtual void SendWant(Slot to, const std::vector<wire::PieceRef>& pieces) = 0;
};

// Deliberate mistakes, for tests that prove that the tests notice.
enum class ShardMistake : uint8_t {
  kNone,
  kCombineInOrderOfArrival,
  kLeaveOneOut,
  kAnswerBeforeTheLast,
  kAnswerTwice,
  kForgetToAnswerOne,
  kNeverAsk,
};

struct ShardOptions {
  // Pieces larger than this are refused.
  uint32_t piece_bytes_max = uint32_t{64} << 20;
  // How long an incomplete piece waits before the shard names it to those who have not pushed, ...
  Duration want_after = milliseconds(10);
  // ... and then again: the first time may have met a worker whose connection was not up yet.
  Duration want_again_after = seconds(1);
  // Credit keeps correct workers far below this many rounds in progress.
  size_t open_rounds_max = size_t{1} << 20;
  ShardMistake mistake = ShardMistake::kNone;  // tests only
};

class Shard {
 public:
  Shard(const ShardOptions& options, BufferPool& pool, Arithmetic& arithmetic, ShardDriver& driver);

  // A new view. One that starts a generation clears all pieces.
  void OnView(const wire::View& view);

  // A push's header, as wire::DecodeDataHeader lets it through: returns where its payload goes,
  // valid until OnPush or OnLost of the same slot. A piece may miss rounds of its tensor (results
  // of allgather differ in length); a round that began ends before the next one.
  // kProtocol: no correct worker of this view sends that; kExhausted: too many rounds are open.
  // Close the connection on both.
  Result<ByteSpan> OnPushHeader(Slot from, const wire::DataHeader& header, size_t payload_bytes,
                                Time now);
  // The payload of the last header from `from` is complete.
  void OnPush(Slot from);
  // All answers up to number `count` have reached `from`.
  void OnAck(Slot from, uint64_t count);
  // The connection is gone; a contribution that was not complete is dropped. Answers are counted
  // from 1 again.
  void OnLost(Slot from);
  // The worker has left in order: rounds it has not joined end with `why` for the others.
  void OnLeft(Slot slot, const Status& why);
  // The tensor was declared in vain; what is held of it is dropped, late pushes are ignored.
  void Retire(TensorId tensor);

  // REQUIRES: now >= NextTick(). Asks for missing contributions.
  void OnTick(Time now);
  // When OnTick has something to do next.
  std::optional<Time> NextTick();

  // Pieces with a round in progress, and with a verdict that somebody may still lack.
  size_t open_rounds() const { return open_rounds_; }
  size_t unstable_verdicts() const { return unstable_verdicts_; }

 private:
  struct Contribution {
    BufferRef buffer;
    uint32_t want_offset = 0;
    uint32_t want_bytes = 0;
    int32_t priority = 0;
    bool arrived = false;
  };
  // A piece's round in progress. Recycled.
  struct Round {
    wire::PieceRef ref;
    Combine combine = Combine::kSum;
    DataType dtype = DataType::kFloat32;
    uint8_t attempt = 0;
    uint32_t piece_bytes = 0;
    uint32_t arrived = 0;
    BufferRef overlay;                        // the whole piece; contributions land in it
    std::vector<Contribution> contributions;  // by slot
    std::vector<Slot> order_of_arrival;
  };
  struct Piece {
    uint64_t decided = 0;  // the last decided round
    StatusCode status = StatusCode::kOk;
    BufferRef verdict;  // of that round, or its error's text, while somebody may lack it
    uint32_t verdict_bytes = 0;
    bool stable = true;
    Combine combine = Combine::kSum;
    DataType dtype = DataType::kFloat32;
    uint8_t attempt = 0;
    uint32_t holders = 0;        // members known to hold the verdict, or gone: those in `held`
    std::vector<uint64_t> held;  // a bit per slot
    std::unique_ptr<Round> round;
  };
  struct Member {
    bool present = false;
    bool left = false;
    uint64_t answers_sent = 0;
    uint64_t answers_acknowledged = 0;
    // What the answers with the numbers answers_sent - size + 1 ... answers_sent were about.
    Ring<wire::PieceRef> answered;
    // The push whose payload is being received.
    bool receiving = false;
    bool ignored = false;      // of a retired tensor, a decided round, or a repeat
    BufferRef receiving_into;  // outlives the round that it was meant for
    wire::DataHeader incoming;
    std::vector<std::byte> scratch;  // where ignored payloads go
  };
  using Waiters = Ring<std::pair<wire::PieceRef, Time>>;
  using PieceKey = uint64_t;
  static PieceKey KeyOf(const wire::PieceRef& ref) {
    return (uint64_t{ref.tensor} << 32) | ref.piece;
  }

  Status CheckPush(Slot from, const wire::DataHeader& header, size_t payload_bytes) const;
  Status CheckRound(const Round& round, Slot from, const wire::DataHeader& header) const;
  Status CheckRepeat(const Piece& piece, const wire::DataHeader& header) const;
  ByteSpan PlaceFor(Round& round, Slot from, const wire::DataHeader& header, size_t payload_bytes);
  ByteSpan Ignore(Member& member, size_t payload_bytes);
  void OpenRound(Piece& piece, const wire::DataHeader& header, Time now);
  void DropRound(Piece& piece);
  void AnswerAgain(Slot to);
  void DecideIfPossible(Piece& piece);
  void Decide(Piece& piece);
  void CombineContributions(Round& round);
  void DecideError(Piece& piece, const Status& why);
  void AnswerAll(Piece& piece);
  void Answer(Piece& piece, const wire::PieceRef& ref, Slot to, uint32_t want_offset,
              uint32_t want_bytes, int32_t priority);
  void MarkHeld(Piece& piece, Slot by);
  bool IsStable(const wire::PieceRef& ref) const;
  std::optional<Slot> MissingLeaver(const Round& round) const;
  Round* OpenRoundOf(const wire::PieceRef& ref);
  void ForgetDecided(Waiters& waiters);
  void CollectWants(Waiters& waiters, Duration after, Time now);

  const ShardOptions options_;
  BufferPool& pool_;
  Arithmetic& arithmetic_;
  ShardDriver& driver_;

  uint64_t epoch_ = 0;
  uint32_t generation_ = 0;
  std::vector<Member> members_;  // by slot
  uint32_t member_count_ = 0;
  uint32_t left_count_ = 0;
  std::vector<Status> left_why_;  // by slot
  std::unordered_map<PieceKey, Piece> pieces_;
  std::unordered_set<TensorId> retired_;
  std::vector<std::unique_ptr<Round>> spare_rounds_;
  // Rounds that nobody has asked for yet, by age, and those asked for, by when; some may be decided
  // by now.
  Waiters waiting_;
  Waiters asked_;
  size_t open_rounds_ = 0;
  size_t unstable_verdicts_ = 0;
  std::vector<const std::byte*> inputs_;             // scratch of CombineContributions
  std::vector<std::vector<wire::PieceRef>> wanted_;  // scratch of OnTick, by slot
};

}  // namespace byteps::protocol
