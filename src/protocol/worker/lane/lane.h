// Lane: carries the pieces of the shards whose number modulo the lanes is its own, with their
// connections, a credit and a queue of its own. It walks each piece along its path (data_path.h),
// pushes it to its owner, receives the verdict into the user's memory, keeps verdicts that others
// may lack, and tells them to whoever owns the piece next (docs/membership.md).
//
// It knows nothing of names, users and declarations: the front tells it which exchanges begin, and
// is told when its part of one has ended. When a view moves pieces to shards of other lanes, it
// hands them over, and takes over what comes: until that is here it sends nothing new.
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
#include "src/protocol/arithmetic.h"
#include "src/protocol/codec.h"
#include "src/protocol/worker/exchange/mail.h"
#include "src/protocol/worker/lane/lane_rules.h"
#include "src/protocol/worker/lane/outbox.h"
#include "src/protocol/worker/lane/piece_path.h"
#include "src/protocol/worker/lane/piece_watch.h"
#include "src/wire/data.h"

namespace byteps::protocol {

// What a lane asks of its driver. No call comes back into the lane.
class LaneDriver {
 public:
  virtual ~LaneDriver() = default;
  virtual void ToFront(FrontMail mail) = 0;
  // `payload` is borrowed until the piece is answered, or Forget; `keep`, if set, owns it.
  virtual void SendPush(ShardId to, const wire::DataHeader& header, ConstByteSpan payload,
                        BufferRef keep) = 0;
  // `payload` lies in `keep`.
  virtual void SendVerdict(ShardId to, const wire::DataHeader& header, ConstByteSpan payload,
                           BufferRef keep) = 0;
  virtual void SendHave(ShardId to, uint64_t epoch, const std::vector<wire::HeldPiece>& pieces) = 0;
  virtual void SendResync(ShardId to, uint64_t epoch) = 0;
  // In place of the push with this header.
  virtual void SendAbort(ShardId to, const wire::DataHeader& header, const std::string& why) = 0;
  virtual void SendAck(ShardId to, const wire::Progress& ack) = 0;
  // `number.count` is the process set's number. No ranks: it is removed; must not overtake its
  // pushes.
  virtual void SendProcessSet(ShardId to, const wire::Progress& number, const SlotSet& ranks) = 0;
  // Empty: all of its ranks.
  virtual void SendJoined(ShardId to, const wire::Progress& number, const SlotSet& ranks) = 0;
  // Nothing of this lane's that is still queued may borrow from `memory` after this call, and
  // nothing that is coming in may be put there.
  virtual void Forget(ConstByteSpan memory) = 0;
};

struct LaneOptions {
  uint32_t lane = 0;
  uint32_t lanes = 1;
  plan::CreditOptions credit;
  // An answer is acknowledged on its own when no push has carried the news for this long.
  Duration acknowledge_after = milliseconds(10);
  const Codecs* codecs = &Codecs::None();  // outlive the lane
  // Null: a piece's path is the exchange, with a codec's stages around it if its tensor has one.
  MakePiecePaths paths;
  ResumePiece resume;           // what stages get
  PieceWatch* watch = nullptr;  // hears of this lane's pieces; outlives the lane
  const LaneRules* rules = &kLaneRules;
};

class Lane {
 public:
  // Buffers of `pool` must not outlive it.
  Lane(const LaneOptions& options, BufferPool& pool, Arithmetic& arithmetic, LaneDriver& driver);
  ~Lane();

  // Mail of the front, in order. REQUIRES, of a view: OnShardDown was called for shards of this
  // lane that are dead or another process now (all of them at a new generation).
  void OnMail(LaneMail mail);

  // A connection to a shard of this lane stands: says what must be repeated. Pushes to a shard
  // without a connection wait for this.
  void OnShardUp(ShardId shard);
  // It is gone; nothing writes to users' memory from it any more.
  void OnShardDown(ShardId shard);

  // An answer's header: returns where its payload goes, valid until OnAnswer of the same shard.
  // kProtocol: no correct shard sends that.
  Result<ByteSpan> OnAnswerHeader(ShardId from, const wire::DataHeader& header,
                                  size_t payload_bytes);
  void OnAnswer(ShardId from, Time now);
  void OnWant(ShardId from, const std::vector<wire::PieceRef>& pieces);
  // All answers of `from` up to this number are with every member.
  void OnStable(ShardId from, const wire::Progress& stable);

  // What the longest of the paths to its shards takes there and back, whenever the driver knows it
  // anew.
  void OnRoundTrip(Duration round_trip);

  // The stage in which the piece waits has ended; `error` with kFailed. No effect if it does not
  // wait there any more.
  void Resume(const PieceTicket& ticket, StageVerdict how, const Status& error);
  // PiecePaths::AbandonAll; the lane may stand in the middle of a step. Nothing else follows.
  void AbandonAll();

  // Others may depend on what this lane holds: its worker must not leave yet.
  bool HoldsUnstable() const;
  // REQUIRES: now >= NextTick().
  void OnTick(Time now);
  std::optional<Time> NextTick();

  uint64_t bytes_in_flight() const;
  // Answers that came although the piece had its verdict; none while no connection breaks.
  uint64_t repeated_answers() const;

 private:
  struct Parts;
  void TellIfSettled();

  std::unique_ptr<Parts> parts_;
};

}  // namespace byteps::protocol
