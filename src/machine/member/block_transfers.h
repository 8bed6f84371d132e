// Carries pieces between the window of a machine and the lanes of its carrier, in a job with
// servers. The ranks sum a piece that is to be pushed in a block of the window, and the carrier
// copies it out. The carrier copies an answer into a block, from which the ranks read it. A block
// waits for the ranks of the machine only (decision 18, rule 2), so a piece gets one block for each
// of the two ways. Pieces get blocks in the order in which the lanes bring them; each lane brings
// them by urgency.
//
// Stages of lanes call it on their threads (transfer_stages.h); the window's thread gives the
// blocks and copies. Any thread may call the methods, unless a method says otherwise.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "src/base/thread_annotations.h"
#include "src/local/window.h"
#include "src/machine/room/group_uses.h"
#include "src/machine/room/unit_queue.h"
#include "src/machine/room/words.h"
#include "src/protocol/worker/lane/piece_path.h"

namespace byteps::machine {

// The bit of BlockUse::generation that says: the block has an answer. Without it the block collects
// bytes to push.
inline constexpr uint32_t kSpreads = uint32_t{1} << 31;

inline bool Spreads(const local::BlockUse& use) { return (use.generation & kSpreads) != 0; }
inline RoundKey KeyOfTransfer(const local::BlockUse& use) {
  return {use.tensor, use.round, use.generation & ~(kSpreads | kByGroup)};
}

// A round that all its ranks have begun; ranks that have joined do not count.
struct TransferRound {
  RankSet ranks = 0;  // the ranks that take part
  RankSet bring = 0;
  Combine how = Combine::kSum;
  DataType type = DataType::kFloat32;
  // The parts of a table of sizes in which ranks that have joined leave gaps: offset and bytes of
  // what the other ranks bring. Every number in a gap is pushed as operations::kTakesNoPart.
  std::vector<std::pair<uint32_t, uint32_t>> parts;
  std::optional<GroupRound> by_group;  // groups sum it, which SetGroups has told
};

class BlockTransfers {
 public:
  enum class Way : uint8_t { kCollect, kSpread };
  // One piece in one stage of a lane. Its bytes stay valid until `resume` is called, or until
  // CallOff.
  struct Piece {
    Way way = Way::kCollect;
    const void* owner = nullptr;  // the stages of one lane
    protocol::PieceTicket ticket;
    RoundKey key;
    uint32_t piece_bytes = 0;
    uint32_t offset = 0;  // in the piece
    ByteSpan to;          // the place for collected bytes
    ConstByteSpan from;   // the bytes to spread
    protocol::ResumePiece resume;
  };

  // `window`: the carrier's.
  explicit BlockTransfers(local::Window& window, const UnitLimits& limits = {})
      : window_(window), limits_(limits) {}

  // Gives the ranks of the machine, from 0 on, their places in the tree of sums. Must be called
  // before a round is opened in which they have these places.
  void SetPlaces(std::span<const uint32_t> places, kernels::Nodes nodes) {
    window_.SetPlaces(places, nodes);
  }
  // Says which groups of devices sum from now on. Must be called at most once.
  void SetGroups(std::vector<plan::DeviceGroup> groups);
  // Lets no launch be said from now on.
  void StopLaunches();

  // Open lets the pieces of a round have blocks from now on; Close forbids it. After Close, a piece
  // that is to be pushed waits until it is called off, and an answer is spread to nobody.
  void Open(const RoundKey& key, TransferRound round);
  void Close(const RoundKey& key);
  // Until Close, ends in this error all pieces of the round that are to be pushed and have not been
  // collected, and withdraws their blocks. For a round that will end in this error: a rank that
  // cannot fill its part waits for the carrier only, and not for a shard (decision 18, rule 2).
  void BreakOff(const RoundKey& key, const Status& why);

  // Begins a stage. False: there is nothing to do for the piece, and it goes on at once.
  bool Begin(Piece piece);
  // Make sure that nothing touches the bytes of pieces of this ticket, or of this owner, any more.
  // Block for one copy at most.
  void CallOff(const protocol::PieceTicket& ticket);
  void CallOffAll(const void* owner);

  // Returns the launches that the carrier must say now, to the ranks of each group, in this order.
  // Must be called on the window's thread, behind Admit: the launches of a round must be said
  // before its end.
  std::vector<std::pair<RankSet, UnitLaunch>> TakeLaunches();
  // The carrier's rank has seen the end of the next launch. On the window's thread.
  void OnLaunchEnd();
  // Returns whether the carrier's rank is a home of the piece of this use.
  bool IsHome(const local::BlockUse& use);

  // Gives blocks, and looks for answers that all ranks have read. True: it did any of that. Must be
  // called on the window's thread.
  bool Admit();
  // Continues the pieces that have ended. Call it for several at once, because each call may wake a
  // lane. Must be called on the window's thread.
  void Resume();
  // Fills the carrier's part with an answer. False: the piece was called off.
  bool Fill(const local::AdmittedUse& at, ByteSpan part);
  // Takes collected bytes. `result` is empty after an error.
  void Take(const local::AdmittedUse& at, bool is_sum, ConstByteSpan result);

 private:
  struct Given {
    Piece piece;
    local::AdmittedUse at;
    bool is_off = false;
    Status why;  // an error: the round is broken off
  };
  using Pieces = std::map<uint64_t, Given>;  // by use
  struct Ended {
    protocol::PieceTicket ticket;
    protocol::ResumePiece resume;
    Status error;
  };

  local::BlockUse UseOf(const Piece& piece, const TransferRound& round) const
      BYTEPS_REQUIRES(mutex_);
  bool MustWait(const Piece& piece) const BYTEPS_REQUIRES(mutex_);
  bool AdmitOne(const Piece& piece, const TransferRound& round, std::vector<RankSet>& stuck,
                bool& over) BYTEPS_REQUIRES(mutex_);
  bool EndSpreads();
  bool EndBroken() BYTEPS_REQUIRES(mutex_);
  void CopyOut(const Piece& piece, const TransferRound& round, ConstByteSpan result) const;
  template <typename Which>
  void CallOffIf(Which which);

  local::Window& window_;
  const UnitLimits limits_;
  std::vector<Ended> ended_;  // used on the window's thread only
  Mutex mutex_;
  std::condition_variable copied_;
  std::map<RoundKey, TransferRound> rounds_ BYTEPS_GUARDED_BY(mutex_);
  std::optional<UnitQueue> units_ BYTEPS_GUARDED_BY(mutex_);  // none: there are no groups
  std::deque<Piece> waiting_ BYTEPS_GUARDED_BY(mutex_);
  Pieces given_ BYTEPS_GUARDED_BY(mutex_);
  std::map<RoundKey, Status> broken_ BYTEPS_GUARDED_BY(mutex_);  // rounds that are broken off
  uint64_t copying_ BYTEPS_GUARDED_BY(mutex_) = 0;  // the use whose bytes are being copied
};

}  // namespace byteps::machine
