// Lane: carries the pieces of the shards whose number modulo the number of lanes is its own. It has
// connections, a credit and a queue of its own. It walks each piece along its path (data_path.h),
// pushes it to its owner, receives the verdict into the user's memory, keeps verdicts that others
// may lack, and tells them to the shard that owns the piece next (docs/membership.md).
//
// The lane knows nothing of names, users and declarations. The front tells it which exchanges
// begin, and the lane tells the front when its part of one has ended. When a view moves pieces to
// shards of other lanes, the lane hands them over, and takes over the pieces that come. Until these
// are here, it sends nothing new.
//
// No I/O, no clock, no thread: one driver calls it, from one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/status.h"
#include "src/base/time.h"
#include "src/plan/credit_controller.h"
#include "src/protocol/arithmetic.h"
#include "src/protocol/codec.h"
#include "src/protocol/worker/exchange/mail.h"
#include "src/protocol/worker/lane/lane_rules.h"
#include "src/protocol/worker/lane/piece_path.h"
#include "src/protocol/worker/lane/piece_watch.h"
#include "src/wire/frame.h"

namespace byteps::protocol {

// The calls of a lane to its driver. No call comes back into the lane.
class LaneDriver {
 public:
  virtual ~LaneDriver() = default;
  virtual void ToFront(FrontMail mail) = 0;
  // Sends a push or a verdict. The payload of a push without `keep` is borrowed until the piece is
  // answered, or until Forget.
  virtual void SendData(ShardId to, wire::DataFrame frame) = 0;
  // Sends any other frame of a worker. A process set that is removed must not overtake the pushes
  // of the set.
  virtual void Send(ShardId to, const wire::Frame& frame) = 0;
  // Forgets `memory`. After this call no queued frame of this lane may borrow from it, and no
  // incoming bytes may be put there.
  virtual void Forget(ConstByteSpan memory) = 0;
};

struct LaneOptions {
  uint32_t lane = 0;
  uint32_t lanes = 1;
  plan::CreditOptions credit;
  // If no push has carried an acknowledgement for this long, the lane sends one on its own.
  Duration acknowledge_after = milliseconds(10);
  const Codecs* codecs = &Codecs::None();  // must outlive the lane
  // Null: the path of a piece is the exchange. If its tensor has a codec, the codec's stages are
  // around the exchange.
  MakePiecePaths paths;
  ResumePiece resume;           // given to the stages
  PieceWatch* watch = nullptr;  // hears of this lane's pieces; must outlive the lane
  const LaneRules* rules = &kLaneRules;
};

class Lane {
 public:
  // Buffers of `pool` must not outlive the lane.
  Lane(const LaneOptions& options, BufferPool& pool, Arithmetic& arithmetic, LaneDriver& driver);
  ~Lane();

  // Takes mail of the front, in order. REQUIRES, for a view: OnShardDown was called for each shard
  // of this lane that is dead or another process now (all of them at a new generation).
  void OnMail(LaneMail mail);

  // Takes a new connection to a shard of this lane, and repeats to the shard what it may not know.
  // Pushes to a shard without a connection wait for this.
  void OnShardUp(ShardId shard);
  // Notes that the connection is gone. Nothing that came over it writes to users' memory any more.
  void OnShardDown(ShardId shard);

  // Takes the header of an answer. Returns where its payload goes; the place is valid until
  // OnAnswer of the same shard. kProtocol: a correct shard never sends this answer.
  Result<ByteSpan> OnAnswerHeader(ShardId from, const wire::DataHeader& header,
                                  size_t payload_bytes);
  void OnAnswer(ShardId from, Time now);
  // Takes a want or a stable frame.
  void OnFrame(ShardId from, const wire::Frame& frame);

  // Takes the round-trip time of the longest path to the lane's shards. The driver calls this
  // whenever it knows a new one.
  void OnRoundTrip(Duration round_trip);

  // Ends the stage in which the piece waits; `error` comes with kFailed. No effect if the piece
  // does not wait there any more.
  void Resume(const PieceTicket& ticket, StageVerdict how, const Status& error);
  // Calls PiecePaths::AbandonAll. The lane may be in the middle of a step. No other call may
  // follow.
  void AbandonAll();

  // Returns whether others may depend on a verdict that this lane holds. Its worker must not leave
  // yet then.
  bool HoldsUnstable() const;
  // REQUIRES: now >= NextTick().
  void OnTick(Time now);
  std::optional<Time> NextTick();

  uint64_t bytes_in_flight() const;
  // Counts the answers that came although the piece had its verdict. It is zero while no connection
  // breaks.
  uint64_t repeated_answers() const;

 private:
  struct Parts;
  void TellIfSettled();

  std::unique_ptr<Parts> parts_;
};

}  // namespace byteps::protocol
