// Asks for missing contributions. A piece that some have pushed and others have not may wait for
// credit that is spent on other pieces: a want names it, and what is named passes the credit, so
// that ranks that push in different orders do not wait for each other for ever.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "src/base/ring.h"
#include "src/base/time.h"
#include "src/protocol/shard/shard_driver.h"
#include "src/protocol/shard/state/attendance.h"
#include "src/protocol/shard/state/piece_table.h"

namespace byteps::protocol {

// One thread at a time; steady state allocates nothing.
class Wants {
 public:
  struct Times {
    Duration after;        // how long a round waits before it is asked for
    Duration again_after;  // and asked for once more: a want may have met no connection
  };
  // All of them outlive it.
  Wants(const Times& times, PieceTable& pieces, const Attendance& attendance, ShardDriver& driver)
      : times_(times), pieces_(pieces), attendance_(attendance), driver_(driver) {}

  // A round was opened.
  void Add(const wire::PieceRef& ref, Time now) { waiting_.push_back({ref, now}); }
  // A round has ended: forgets those at the front that have.
  void ForgetEnded();
  // A generation begins.
  void Clear();

  // When Tick has something to do next.
  std::optional<Time> NextTick();
  // Asks for what is due.
  void Tick(Time now);

 private:
  using Waiting = Ring<std::pair<wire::PieceRef, Time>>;
  void ForgetEnded(Waiting& waiting);
  void Collect(Waiting& waiting, Duration after, Time now);

  const Times times_;
  PieceTable& pieces_;
  const Attendance& attendance_;
  ShardDriver& driver_;
  // Rounds that nobody has asked for yet, by age, and those asked for, by when; some may have
  // ended.
  Waiting waiting_;
  Waiting asked_;
  std::vector<std::vector<wire::PieceRef>> wanted_;  // scratch of Tick, by slot
};

}  // namespace byteps::protocol
