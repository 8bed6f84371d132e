// Which piece gets a block of the window next, at the carrier: pieces of complete rounds, the most
// urgent first. A piece that cannot have a block holds up only pieces of the same ranks: others may
// be given the reserve.
//
// On the thread of its window. Nothing blocks.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "src/local/window.h"
#include "src/machine/room/words.h"
#include "src/machine/serverless/rounds.h"

namespace byteps::machine {

// The use of a block, or of what is like one, for a piece of so many bytes of such a round.
local::BlockUse UseFor(const RoundKey& key, const RoundFacts& facts, RankSet ranks, uint32_t last,
                       size_t bytes);

class BlockQueue {
 public:
  // The carrier's window.
  explicit BlockQueue(local::Window& window) : window_(window) {}

  // REQUIRES: it has pieces.
  void Add(const RoundKey& key, const CompleteRound& round);
  // Gives blocks to pieces as long as there are any. True: it gave one.
  bool Admit();
  // The round shall end in an error: no piece of it gets a block any more, and one at least is
  // without a result on every rank. False: nothing has changed, because all pieces have blocks, and
  // none of them can be withdrawn now.
  bool BreakOff(const RoundKey& key);
  // Rounds of which all pieces are over, since it was asked last.
  std::vector<RoundKey> TakeOver();
  // No piece waits for a block, or has one.
  bool IsIdle() const { return queue_.empty() && given_.empty(); }

 private:
  struct Urgency {
    int64_t before = 0;  // the priority, negated
    uint32_t order = 0;
    RoundKey key;
    friend auto operator<=>(const Urgency&, const Urgency&) = default;
  };
  struct Pieces {
    RoundFacts facts;
    RankSet ranks = 0;
    uint32_t last = 0;
    size_t run = 0;         // of facts.pieces
    uint32_t run_done = 0;  // of its pieces
    uint32_t number = 0;    // of the next piece
    bool HasMore() const { return run < facts.pieces.size(); }
  };
  struct Given {
    local::AdmittedUse at;
    RoundKey key;
  };

  static local::BlockUse UseOf(const RoundKey& key, const Pieces& pieces);
  bool AdmitFrom(const RoundKey& key, Pieces& pieces);
  void DropOver();

  local::Window& window_;
  std::map<Urgency, Pieces> queue_;  // with pieces that wait for a block
  std::vector<Given> given_;         // whose uses are not over
  std::vector<RoundKey> over_;
};

}  // namespace byteps::machine
