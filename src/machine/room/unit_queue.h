// Decides at the carrier which launch of the groups comes next. The groups sum a round in *units*:
// runs of whole pieces. First each unit is reduced: each home has the sum of its pieces then, and
// brings it to the window. When the answers of all these pieces are at their homes, the unit is
// gathered. If the only group has no homes, one launch sums a unit for all ranks. Rules
// (spec/groups.pml):
//
//   * A round is opened when all its ranks have begun it, all with memory on their devices.
//   * The most urgent round is reduced first. Gathers overtake reduces, because ranks wait for
//     them.
//   * At most so many bytes are said and not reduced at the carrier's rank: an urgent tensor waits
//     for them.
//
// A value; one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "src/machine/room/group_words.h"
#include "src/machine/room/urgency.h"
#include "src/machine/room/words.h"
#include "src/plan/device_sums.h"

namespace byteps::machine {

// A round that the groups sum.
struct GroupRound {
  // `count` pieces, one after the other, have `bytes` bytes each.
  struct Run {
    uint32_t count = 0;
    uint32_t bytes = 0;
  };
  int32_t priority = 0;
  uint32_t order = 0;
  DataType type = DataType::kFloat32;
  Combine how = Combine::kSum;
  std::vector<Run> pieces;
};

// Returns how a group reduces what the ranks combine: somebody else divides.
inline Combine InGroup(Combine how) { return how == Combine::kAverage ? Combine::kSum : how; }

struct UnitLimits {
  size_t unit_bytes = size_t{4} << 20;     // a unit ends with the piece that reaches this
  size_t launched_max = size_t{16} << 20;  // said and not reduced
};

class UnitQueue {
 public:
  // A launch, as each group hears it: by group.
  using Said = std::vector<UnitLaunch>;

  // `groups`: every rank of the machine is in one of them.
  UnitQueue(std::vector<plan::DeviceGroup> groups, const UnitLimits& limits)
      : groups_(std::move(groups)), limits_(limits) {}

  // Open lets a round have launches from now on; Close forbids it. REQUIRES: the round has bytes.
  void Open(const RoundKey& key, const GroupRound& round);
  void Close(const RoundKey& key);
  bool Has(const RoundKey& key) const { return rounds_.contains(key); }

  // Returns the launches that can be said now, in the order in which all ranks must launch them.
  std::vector<Said> Take();
  // The same, with the ranks that must hear each of them.
  std::vector<std::pair<RankSet, UnitLaunch>> TakeLaunches();
  // Lets no launch be said from now on.
  void Stop() { has_stopped_ = true; }
  // The carrier's rank has seen the end of the next launch.
  void OnLaunchEnd();
  // The answer of this piece is at its homes. Counts once for each piece: one that has moved to
  // another lane is spread again.
  void OnSpread(const RoundKey& key, uint32_t piece);

  // Returns whether the piece has been reduced, as far as the carrier's rank knows. REQUIRES for
  // all three: Has.
  bool IsReduced(const RoundKey& key, uint32_t piece) const;
  // Returns whether the carrier's rank has the whole sum of the round.
  bool IsWhole(const RoundKey& key) const;
  // Returns the home of the piece in each group.
  RankSet HomesOf(const RoundKey& key, uint32_t piece) const;

  // Returns whether one launch sums a unit for all ranks, and no piece has a home.
  bool SumsAtOnce() const { return groups_.size() == 1 && groups_[0].weights.empty(); }

 private:
  struct Unit {
    uint32_t first = 0;
    uint32_t pieces = 0;
    size_t bytes = 0;
    uint32_t open = 0;             // pieces whose answer is not at all homes
    std::vector<bool> has_answer;  // by piece: it is at all homes
    bool is_reduced = false;
  };
  struct Round {
    GroupRound facts;
    uint32_t first_piece = 0;
    std::vector<Unit> units;
    size_t said = 0;   // units whose reduce was said
    size_t whole = 0;  // units of which the carrier's rank has the whole sum
  };
  struct Launched {
    RoundKey key;
    size_t unit = 0;
    size_t bytes = 0;
    device::Launch::Kind kind = device::Launch::Kind::kReduce;
  };

  static Urgency UrgencyOf(const RoundKey& key, const Round& round) {
    return {-int64_t{round.facts.priority}, round.facts.order, key};
  }
  // Returns the number of the unit that has the piece.
  static size_t UnitOf(const Round& round, uint32_t piece);
  static size_t BytesBefore(const Round& round, const Unit& unit, uint32_t pieces);
  Said Say(device::Launch::Kind kind, const RoundKey& key, const Round& round,
           const Unit& unit) const;

  const std::vector<plan::DeviceGroup> groups_;
  const UnitLimits limits_;
  std::map<RoundKey, Round> rounds_;
  std::set<Urgency> waiting_;                      // rounds with units to reduce
  std::deque<std::pair<RoundKey, uint32_t>> due_;  // gathers, by the first piece of the unit
  std::deque<Launched> launched_;
  size_t launched_bytes_ = 0;  // not reduced
  bool has_stopped_ = false;
};

}  // namespace byteps::machine
