// Shard: the owner of pieces. Collects the contributions to a piece's round, combines them in slot
// order when the last one is in, and answers every member. Whatever happens to members and to other
// shards, a round ends in one verdict: docs/membership.md has the rules.
//
// There is one kind of round for all operations: each member pushes a span of the piece (perhaps an
// empty one) and says which span of the verdict it wants; the contributions are reduced or
// overlaid; every member is answered. Who wants nothing is answered when all who want bytes are
// known to have them: then it may forget what it pushed. A round belongs to a group of members;
// the others, and members that have joined, take no part in it. A shard knows no tensors' names,
// shapes or users.
//
// No I/O, no clock, no thread: one driver calls it, from one thread. Payloads are received straight
// into the places that OnPushHeader names. Buffers of `pool` must not outlive it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
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
#include "src/plan/ownership.h"
#include "src/protocol/arithmetic.h"
#include "src/protocol/slot_set.h"
#include "src/wire/control.h"
#include "src/wire/data.h"
#include "src/wire/error_row.h"
#include "src/wire/frame_kind.h"

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
  // All answers to `to` up to this number are with every member.
  virtual void SendStable(Slot to, const wire::Progress& stable) = 0;
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
  // Of the failure protocol; the numbers are those of docs/membership.md.
  kIgnoreSince,             // 5
  kDecideBeforeAllPushed,   // 6
  kNoFence,                 // 7
  kJudgeByTheOldView,       // 8
  kNoAnswerToARepeat,       // 10
  kVerdictIsAContribution,  // 11
  kVerdictDropsNextRound,   // 12
  kErrorWithoutResync,      // 15
  kErrorBeforeStable,       // 16
};

struct ShardOptions {
  // Pieces larger than this are refused.
  uint32_t piece_bytes_max = wire::kPieceBytesMax;
  // How long an incomplete piece waits before the shard names it to those who have not pushed, ...
  Duration want_after = milliseconds(10);
  // ... and then again: the first time may have met a worker whose connection was not up yet.
  Duration want_again_after = seconds(1);
  // How long news of stability waits for an answer that could carry it.
  Duration stable_after = milliseconds(1);
  // What waits of one member for a view. A correct one has its credit on the way, what others want,
  // and what it repeats: should it have more than this, it says it again when the view is here.
  size_t held_bytes_max = size_t{256} << 20;
  // Credit keeps correct workers far below this many rounds in progress. One beyond it ends in an
  // error; as an error may have to wait, there may be twice as many.
  size_t open_rounds_max = size_t{1} << 20;
  ShardMistake mistake = ShardMistake::kNone;  // tests only
};

class Shard {
 public:
  Shard(const ShardOptions& options, BufferPool& pool, Arithmetic& arithmetic, ShardDriver& driver);

  // A view is in force; `self` is this shard. One that begins a generation clears everything.
  // Otherwise contributions of workers that are gone stay if they are whole, pieces that belong to
  // others now are dropped, and what is complete by the new view is decided.
  // REQUIRES: connections of workers that are not in it are closed; nothing comes from them.
  void OnView(const wire::View& view, ShardId self);

  // The header of a push or a verdict, as wire::DecodeDataHeader lets it through: returns where its
  // payload goes, valid until OnPayload or OnLost of the same slot. A piece may miss rounds of its
  // tensor (results of allgather differ in length); a round that began ends before the next one.
  // What belongs to a newer view waits until that view is here, and so does what comes behind it.
  // kProtocol: no correct worker of this view sends that; kExhausted: twice too many rounds are
  // open, or CheckHeld. Close the connection on both.
  Result<ByteSpan> OnPushHeader(Slot from, const wire::DataHeader& header, size_t payload_bytes,
                                Time now);
  Result<ByteSpan> OnVerdictHeader(Slot from, const wire::DataHeader& header, size_t payload_bytes,
                                   Time now);
  // The payload of the last header from `from` is complete.
  void OnPayload(Slot from);
  // After each other frame. kExhausted: too much of `from` waits for a view. Close the connection:
  // on its next one it says all again.
  Status CheckHeld(Slot from) const;
  // All answers up to number `count` have reached `from`, which is in the view of `epoch`.
  void OnAck(Slot from, const wire::Progress& ack, Time now);
  // `from` holds these verdicts, and all members do.
  void OnHave(Slot from, uint64_t epoch, const std::vector<wire::HeldPiece>& pieces);
  // `from` has said all it holds of pieces that this shard owns since `epoch` or earlier.
  void OnResync(Slot from, uint64_t epoch);
  // The members of a group, before the first push for it on this connection; 0 is everybody and is
  // never told. An empty bitmap: `from` has removed it, and pushes nothing more for it. What nobody
  // needs is forgotten; who comes to need it tells it first, as on any connection.
  // kProtocol: another member has told of other ones. Close the connection.
  Status OnGroup(Slot from, const wire::Progress& number, ConstByteSpan bitmap);
  // `from` has no operation open and takes no part in rounds until its join with this number, from
  // 1, is over.
  void OnJoined(Slot from, const wire::Progress& number);
  // `from` asks that the round ends in an error.
  void OnAbort(Slot from, const wire::DataHeader& push, const std::string& why);
  // The connection is gone, or another one takes its place; a contribution that was not complete is
  // dropped. Answers are counted from 1 again.
  void OnLost(Slot from);
  // The tensors were declared in vain; rounds in progress are dropped, late pushes are ignored.
  void Retire(const std::vector<TensorId>& tensors);
  // The same for those that nobody knows any more; nobody is left who could push them.
  void OnStillKnown(const wire::StillKnown& known);

  // REQUIRES: now >= NextTick(). Asks for missing contributions, tells of stability.
  void OnTick(Time now);
  // When OnTick has something to do next.
  std::optional<Time> NextTick();

  // Pieces with a round in progress, and with a verdict that somebody may still lack.
  size_t open_rounds() const { return open_rounds_; }
  size_t unstable_verdicts() const { return unstable_verdicts_; }
  size_t groups() const { return groups_.size(); }

 private:
  struct Contribution {
    BufferRef buffer;
    uint32_t want_offset = 0;
    uint32_t want_bytes = 0;
    int32_t priority = 0;
    bool arrived = false;
    bool idle = false;  // wants nothing of the verdict, and has nothing of it either
  };
  // Who takes part in rounds.
  struct Group {
    uint32_t number = 0;
    SlotSet slots;         // of everybody: none
    Receipt all;           // those in the view
    uint32_t present = 0;  // so many
    // It is forgotten when it has none of these.
    SlotSet tellers;  // members that have told of it on their connection, and not removed it
    uint32_t open_rounds = 0;
  };
  // A piece's round in progress. Recycled.
  struct Round {
    uint64_t serial = 0;  // no other round of this shard has it
    wire::PieceRef ref;
    Combine combine = Combine::kSum;
    DataType dtype = DataType::kFloat32;
    uint32_t piece_bytes = 0;
    Group* group = nullptr;
    uint32_t missing = 0;                     // members of group and view that have not pushed
    uint64_t pushed_bytes = 0;                // of an overlay
    BufferRef overlay;                        // the whole piece; contributions land in it
    std::vector<Contribution> contributions;  // by slot
    std::vector<Slot> order_of_arrival;
    std::optional<Status> abort;  // somebody asks for this error
    Receipt partial;              // of the verdict, unless it is the whole group
  };
  // Members whose round is decided, that want nothing of it, and are answered later.
  struct Idle {
    wire::PieceRef ref;
    SlotSet slots;
    SlotSet have_all;  // brought it all themselves
    int32_t priority = 0;
  };
  struct Piece {
    ShardId home = 0;
    uint64_t since = 0;    // the epoch since which this shard owns it
    uint64_t decided = 0;  // the last decided round
    // What somebody may lack: the errors in a row that end with `decided`, or that round's bytes.
    // Members that hang have seen none of these errors, and nobody who gives up again and again may
    // wait for them.
    wire::ErrorRow errors;
    BufferRef verdict;
    uint32_t verdict_bytes = 0;
    bool stable = true;
    bool hollow = false;  // told by one who wanted nothing: there are no bytes, all have theirs
    Combine combine = Combine::kSum;
    DataType dtype = DataType::kFloat32;
    Receipt members;                // who is in the verdict, and so must come to hold it
    uint32_t lacking = 0;           // of them, and of the view, who is not in `held`
    SlotSet held;                   // who is known to hold the verdict
    std::optional<uint32_t> group;  // of the verdict; none: another owner decided it
    std::unique_ptr<Idle> idle;     // members that wait for others to have the bytes
    std::unique_ptr<Round> round;
  };
  // What waits for a newer view.
  struct Held {
    wire::FrameKind kind = wire::FrameKind::kPush;
    wire::DataHeader header;
    BufferRef payload;
    size_t payload_bytes = 0;
    bool complete = true;
    uint64_t epoch = 0;
    std::vector<wire::HeldPiece> pieces;
    std::string text;
    std::vector<std::byte> bitmap;
    size_t bytes() const {
      return sizeof(Held) + payload_bytes + pieces.size() * sizeof(wire::HeldPiece) + text.size() +
             bitmap.size();
    }
  };
  enum class Fate : uint8_t {
    kContribution,  // lands in its round
    kVerdict,       // is adopted
    kRepeat,        // of what is decided or whole: read, and answered again if it is decided
    kDropped,       // does not count
    kHeld,          // waits for its view
  };
  struct Answered {
    wire::PieceRef ref;
    uint64_t since = 0;  // of the piece when it was answered
  };
  struct Member {
    bool present = false;
    bool left = false;
    uint64_t epoch = 0;     // the newest view that it is known to have
    uint64_t resynced = 0;  // the last epoch of which it has said all
    uint64_t joined = 0;    // the number of its last join
    size_t groups = 0;      // of which it is a teller
    uint64_t answers_sent = 0;
    uint64_t answers_acknowledged = 0;
    // What the answers with the numbers answers_sent - size + 1 ... answers_sent were about.
    Ring<Answered> answered;
    uint64_t stable_told = 0;       // number up to which it knows its answers to be stable
    uint64_t sent_before_tick = 0;  // answers_sent at the last look for idle members
    // The push or verdict whose payload is being received.
    bool receiving = false;
    Fate fate = Fate::kDropped;
    BufferRef receiving_into;  // outlives the round that it was meant for
    size_t receiving_bytes = 0;
    uint64_t receiving_for = 0;  // serial of the round that it contributes to
    wire::DataHeader incoming;
    std::vector<std::byte> scratch;  // where payloads go that do not count
    std::deque<Held> held;
    size_t held_bytes = 0;
  };
  using Waiters = Ring<std::pair<wire::PieceRef, Time>>;
  using PieceKey = uint64_t;
  static PieceKey KeyOf(const wire::PieceRef& ref) {
    return (uint64_t{ref.tensor} << 32) | ref.piece;
  }

  // shard.cc: rounds.
  Status CheckSender(Slot from, const wire::DataHeader& header) const;
  Status CheckPush(const wire::DataHeader& header, size_t payload_bytes) const;
  Status CheckRound(const Round& round, const Group& group, Slot from,
                    const wire::DataHeader& header) const;
  std::string PusherOf(const Round& round) const;
  Status CheckRepeat(const Piece& piece, const wire::DataHeader& header) const;
  Result<ByteSpan> PlaceOfPush(Slot from, const wire::DataHeader& header, size_t payload_bytes,
                               Time now);
  Status TooManyRounds() const;
  ByteSpan PlaceFor(Round& round, Slot from, const wire::DataHeader& header, size_t payload_bytes);
  ByteSpan Discard(Member& member, Fate fate, size_t payload_bytes);
  void TakeContribution(Slot from);
  void OpenRound(Piece& piece, Group& group, const wire::DataHeader& header, Time now);
  void DropRound(Piece& piece);
  void DropTensors(const std::function<bool(TensorId)>& unwanted);
  void AnswerAgain(Slot to);
  bool AnyMemberIn(const Round& round) const;
  bool AllHere(const Piece& piece) const;
  void DecideIfPossible(Piece& piece);
  void Decide(Piece& piece);
  void CombineContributions(const Piece& piece, Round& round);
  void TakeLast(Round& round);
  void DecideError(Piece& piece, const Status& why);
  std::optional<Status> ErrorOf(const Piece& piece) const;
  bool MayDecideError(const Piece& piece) const;
  static bool Covers(const Piece& piece, uint64_t round);
  const Receipt& ReceiptOf(Round& round) const;
  void AnswerAll(Piece& piece, std::unique_ptr<Round> round);

  // shard_members.cc: views, connections, answers and who holds them.
  void BeginGeneration(const wire::View& view);
  void ReviewPieces(uint64_t old_epoch);
  void SetVerdict(Piece& piece, uint64_t round, const Receipt& members,
                  std::optional<uint32_t> group);
  bool Needs(const Piece& piece, Slot slot) const;
  bool IsAll(const Piece& piece) const;
  void Recount(Piece& piece);
  void Answer(Piece& piece, const wire::PieceRef& ref, Slot to, uint32_t want_offset,
              uint32_t want_bytes, int32_t priority);
  void AnswerError(Piece& piece, const wire::PieceRef& ref, Slot to, int32_t priority);
  void Send(const Piece& piece, Slot to, wire::DataHeader& header, ConstByteSpan bytes,
            const BufferRef& keep);
  void Number(Member& member, const Piece& piece, wire::DataHeader& header);
  void TakeAck(Slot from, uint64_t count);
  void MarkHeld(Piece& piece, Slot by);
  void BecomeStable(Piece& piece);
  bool IsStable(const Answered& answered) const;
  uint64_t StableCount(Member& member);
  void TellStable(Time now);
  Round* OpenRoundOf(const wire::PieceRef& ref);
  void ForgetDecided(Waiters& waiters);
  void CollectWants(Waiters& waiters, Duration after, Time now);
  void SendWants();

  // shard_groups.cc: who takes part in a round, and who is answered later.
  Group* GroupOf(uint32_t number);
  Status AddTeller(Slot from, uint32_t number, SlotSet slots);
  void RemoveTeller(Slot from, uint32_t number);
  void ForgetTellerOfAll(Slot from);
  bool IsNeeded(const Group& group) const;
  bool InGroup(const Group& group, Slot slot) const;
  bool TakesPart(const Group& group, Slot slot) const;
  void ReviewGroups();
  void CountPresent(Group& group) const;
  bool MayBeExempt(const Round& round) const;
  bool IsExempt(const Piece& piece, Slot slot) const;
  bool OnlyExemptMissing(const Piece& piece) const;
  std::string Missing(const Piece& piece, bool exempt) const;
  uint32_t ExemptCount(const Piece& piece) const;
  std::optional<Status> NobodyBrings(const Piece& piece) const;
  Receipt ConcernedBy(const Piece& piece) const;
  static bool IsIdle(const wire::DataHeader& header, size_t payload_bytes);
  void AnswerWhenDue(Piece& piece, const wire::PieceRef& ref, Slot slot,
                     const Contribution& contribution);
  void NoteWhoHasAll(Piece& piece, const Round& round);
  void AnswerIdle(Piece& piece);
  void AnswerIdleNow(Piece& piece);

  // shard_recovery.cc: what members say after an owner change or a reconnect.
  bool MustWait(const Member& member, uint64_t epoch) const;
  Result<ByteSpan> Hold(Slot from, wire::FrameKind kind, const wire::DataHeader& header,
                        size_t payload_bytes);
  static void Keep(Member& member, Held held);
  void Replay(Slot slot);
  void ReplayOne(Slot slot, Held held);
  bool Counts(const wire::DataHeader& header, plan::Owner& owner) const;
  bool AlwaysMine(uint64_t since) const { return since == ownership_.began(); }
  uint64_t DecidedRoundOf(const wire::PieceRef& ref) const;
  Result<ByteSpan> PlaceOfVerdict(Slot from, const wire::DataHeader& header, size_t payload_bytes);
  void TakeVerdict(Slot from);
  void Adopt(Piece& piece, Slot from, const wire::DataHeader& header);
  void AdoptBytes(Piece& piece, const wire::DataHeader& header, const Member& member,
                  uint32_t skip);
  void Acknowledge(Piece& piece, Slot to);
  void TakeHave(Slot from, const wire::HeldPiece& held, const plan::Owner& owner);

  const ShardOptions options_;
  BufferPool& pool_;
  Arithmetic& arithmetic_;
  ShardDriver& driver_;

  uint64_t epoch_ = 0;
  uint32_t generation_ = 0;
  ShardId self_ = 0;
  plan::Ownership ownership_;
  Group everybody_;
  std::unordered_map<uint32_t, Group> groups_;  // by number
  uint64_t last_join_ = 0;                      // the highest number that was told
  std::vector<Member> members_;                 // by slot
  uint32_t present_count_ = 0;                  // of them in the view,
  uint32_t left_count_ = 0;                     // and of those, that have left in order
  std::unordered_map<PieceKey, Piece> pieces_;
  std::unordered_set<TensorId> retired_;
  std::vector<std::unique_ptr<Round>> spare_rounds_;
  // Rounds that nobody has asked for yet, by age, and those asked for, by when; some may be decided
  // by now.
  Waiters waiting_;
  Waiters asked_;
  size_t open_rounds_ = 0;
  uint64_t rounds_begun_ = 0;
  size_t unstable_verdicts_ = 0;
  Time now_{};                                       // of the last call that told it
  std::optional<Time> stable_due_;                   // some member may not know what is stable
  std::vector<const std::byte*> inputs_;             // scratch of CombineContributions
  std::vector<std::vector<wire::PieceRef>> wanted_;  // scratch of OnTick, by slot
};

}  // namespace byteps::protocol
