// Decides at the carrier which piece gets a block of the window next: pieces of complete rounds,
// the most urgent first. A piece that cannot have a block holds up only pieces of the same ranks;
// the reserve may go to pieces of other ranks.
//
// On the thread of its window. Nothing blocks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "src/local/window.h"
#include "src/machine/room/urgency.h"
#include "src/machine/serverless/local_rounds.h"
#include "src/machine/serverless/local_words.h"

namespace byteps::machine {

// Returns the use of a block, or of a small part, for a piece of `bytes` bytes of such a round.
// `last`: the rank that has begun the round as the last one.
local::BlockUse UseFor(const RoundKey& key, const LocalFacts& facts, RankSet ranks, uint32_t last,
                       size_t bytes);

class BlockQueue {
 public:
  // `window`: the carrier's.
  explicit BlockQueue(local::Window& window) : window_(window) {}

  // Adds the pieces of a round. REQUIRES: the round has pieces.
  void Add(const RoundKey& key, const CompleteRound& round);
  // Gives blocks to pieces as long as there are any. True: it gave at least one.
  bool Admit();
  // Breaks off a round, which shall end in an error: no piece of it gets a block any more, and at
  // least one piece has no result on any rank. False: nothing has changed, because all pieces have
  // blocks, and no block can be withdrawn now.
  bool BreakOff(const RoundKey& key);
  // Returns the rounds whose pieces are all over, since the last call.
  std::vector<RoundKey> TakeOver();
  // Returns whether no piece waits for a block, or has one.
  bool IsIdle() const { return queue_.empty() && given_.empty(); }

 private:
  struct Pieces {
    LocalFacts facts;
    RankSet ranks = 0;
    uint32_t last = 0;
    size_t run = 0;         // in facts.pieces
    uint32_t run_done = 0;  // pieces of that run
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
  std::vector<Given> given_;         // blocks whose uses are not over
  std::vector<RoundKey> over_;
};

}  // namespace byteps::machine
