// Decides at the carrier which piece gets a block of the window next: pieces of complete rounds,
// the most urgent first. A piece that cannot have a block holds up only pieces of the same ranks;
// the reserve may go to pieces of other ranks.
//
// It also has the rounds that groups of devices sum (room/unit_queue.h). A piece of such a round
// gets a block when its unit is reduced, and only if the groups are several, which the window sums.
// When the carrier's rank has the whole sum, the round gets a last block without bytes. Its
// decision is that of the round, so no rank keeps a sum that another one does not get.
//
// On the thread of its window. Nothing blocks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "src/local/window.h"
#include "src/machine/room/unit_queue.h"
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

  // Says which groups of devices sum from now on. Must be called at most once.
  void SetGroups(std::vector<plan::DeviceGroup> groups, const UnitLimits& limits) {
    units_.emplace(std::move(groups), limits);
  }
  // Adds the pieces of a round. `by_group`: the groups sum it. REQUIRES: the round has pieces.
  void Add(const RoundKey& key, const CompleteRound& round, bool by_group = false);
  // Gives blocks to pieces as long as there are any. True: it gave at least one.
  bool Admit();
  // Breaks off a round, which shall end in an error: no piece of it gets a block any more, and at
  // least one piece has no result on any rank. False: nothing has changed, because all pieces have
  // blocks, and no block can be withdrawn now.
  bool BreakOff(const RoundKey& key);
  // Returns the rounds whose pieces are all over, since the last call.
  std::vector<RoundKey> TakeOver();
  // Return what UnitQueue says of the groups' launches. Launches must be said after each Admit, and
  // before the round of one has ended.
  std::vector<std::pair<RankSet, UnitLaunch>> TakeLaunches();
  void OnLaunchEnd();
  // Lets no launch be said from now on.
  void StopLaunches();
  // Returns the rounds that groups sum and that have not their last block.
  std::vector<RoundKey> RoundsOfGroups() const;
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
    bool by_group = false;
    bool is_over = false;  // every piece has, or had, a block, and so has the end of the round
    bool HasPieces() const { return run < facts.pieces.size(); }
  };
  struct Given {
    local::AdmittedUse at;
    RoundKey key;
  };

  static local::BlockUse UseOf(const RoundKey& key, const Pieces& pieces);
  local::BlockUse UseByGroup(const RoundKey& key, const Pieces& pieces) const;
  bool MustWait(const RoundKey& key, const Pieces& pieces) const;
  bool AdmitFrom(const RoundKey& key, Pieces& pieces, std::vector<RankSet>& stuck);
  static void GoOn(Pieces& pieces);
  void DropOver();

  local::Window& window_;
  std::map<Urgency, Pieces> queue_;  // with pieces that wait for a block
  std::vector<Given> given_;         // blocks whose uses are not over
  std::vector<RoundKey> over_;
  std::optional<UnitQueue> units_;  // none: there are no groups
};

}  // namespace byteps::machine
