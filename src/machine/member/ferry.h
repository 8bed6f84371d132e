// Carries pieces between the window of a machine and the lanes of its carrier, in a job with
// servers: a piece that is to be pushed is summed in a block of the window and copied out, and an
// answer is copied into a block, from which the ranks read it. A block waits for the ranks of the
// machine only (decision 18, rule 2), so a piece gets one for each of the two ways. Pieces get
// blocks in the order in which the lanes bring them, which is by urgency in each lane's outbox.
//
// Stages of lanes ask for it on their threads (ferry_paths.h); the window's thread gives the blocks
// and copies. Any thread but where it says otherwise.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "src/base/thread_annotations.h"
#include "src/local/window.h"
#include "src/machine/room/words.h"
#include "src/protocol/worker/lane/piece_path.h"

namespace byteps::machine {

// In BlockUse::generation: the block has an answer. Else it collects what is pushed.
inline constexpr uint32_t kSpreads = uint32_t{1} << 31;

inline bool Spreads(const local::BlockUse& use) { return (use.generation & kSpreads) != 0; }
inline RoundKey KeyOfUpward(const local::BlockUse& use) {
  return {use.tensor, use.round, use.generation & ~kSpreads};
}

// A round whose ranks have all begun it, or have joined.
struct FerryRound {
  RankSet ranks = 0;  // that take part
  RankSet bring = 0;
  Combine how = Combine::kSum;
  DataType type = DataType::kFloat32;
  // Of a table of sizes in which ranks that have joined leave gaps: what the others bring, offset
  // and bytes. Every number of a gap is pushed as operations::kTakesNoPart.
  std::vector<std::pair<uint32_t, uint32_t>> parts;
};

class Ferry {
 public:
  enum class Way : uint8_t { kCollect, kSpread };
  // One piece in one stage of a lane. Its bytes stay until its end is told, or CallOff.
  struct Piece {
    Way way = Way::kCollect;
    const void* owner = nullptr;  // the stages of one lane
    protocol::PieceTicket ticket;
    RoundKey key;
    uint32_t piece_bytes = 0;
    uint32_t offset = 0;  // in the piece
    ByteSpan to;          // of what is collected
    ConstByteSpan from;   // of what is spread
    protocol::ResumePiece resume;
  };

  // The carrier's window.
  explicit Ferry(local::Window& window) : window_(window) {}

  // The pieces of a round may have blocks from now on; and not any more: then what is to be pushed
  // waits until it is called off, and answers are spread to nobody.
  void Open(const RoundKey& key, FerryRound round);
  void Close(const RoundKey& key);

  // False: there is nothing to be done with it, and it goes on at once.
  bool Begin(Piece piece);
  // Nothing touches the bytes of what was begun for the ticket, or by this owner, any more. Waits
  // for one copy at most.
  void CallOff(const protocol::PieceTicket& ticket);
  void CallOffAll(const void* owner);

  // On the window's thread: gives blocks, and looks which answers all have read. True: did any.
  bool Admit();
  // On the window's thread: continues the pieces that have ended. Of several at once, because each
  // time may wake a lane.
  void Resume();
  // Fills the carrier's part with an answer. False: that was called off.
  bool Fill(const local::AdmittedUse& at, ByteSpan part);
  // What was collected. `result` is empty after an error.
  void Take(const local::AdmittedUse& at, bool is_sum, ConstByteSpan result);

 private:
  struct Given {
    Piece piece;
    local::AdmittedUse at;
    bool is_off = false;
  };
  using Pieces = std::map<uint64_t, Given>;  // by use
  struct Ended {
    protocol::PieceTicket ticket;
    protocol::ResumePiece resume;
    Status error;
  };

  local::BlockUse UseOf(const Piece& piece, const FerryRound& round) const;
  bool AdmitOne(const Piece& piece, const FerryRound& round, std::vector<RankSet>& stuck,
                bool& over) BYTEPS_REQUIRES(mutex_);
  bool EndSpreads();
  void CopyOut(const Piece& piece, const FerryRound& round, ConstByteSpan result) const;
  template <typename Which>
  void CallOffIf(Which which);

  local::Window& window_;
  std::vector<Ended> ended_;  // of the window's thread
  Mutex mutex_;
  std::condition_variable copied_;
  std::map<RoundKey, FerryRound> rounds_ BYTEPS_GUARDED_BY(mutex_);
  std::deque<Piece> waiting_ BYTEPS_GUARDED_BY(mutex_);
  Pieces given_ BYTEPS_GUARDED_BY(mutex_);
  uint64_t copying_ BYTEPS_GUARDED_BY(mutex_) = 0;  // the use whose bytes are being copied
};

}  // namespace byteps::machine
