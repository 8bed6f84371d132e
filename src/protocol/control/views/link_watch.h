// The links as the workers have measured them, and the placement that follows
// (docs/decisions/0028-measured-links.md). LinkWatch only says which placement would be better; the
// succession of views brings it into force.
//
// One thread; no I/O.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/plan/placement_keeper.h"
#include "src/protocol/control/members/coordinator_driver.h"
#include "src/protocol/control/members/host_map.h"
#include "src/protocol/control/members/roster.h"
#include "src/protocol/control/views/coordinator_options.h"
#include "src/wire/accounts.h"
#include "src/wire/view.h"

namespace byteps::protocol {

class LinkWatch {
 public:
  // The arguments outlive the object.
  LinkWatch(const CoordinatorOptions& options, CoordinatorDriver& driver, const Roster& roster)
      : options_(options), driver_(driver), roster_(roster) {}

  // A view is in force. Measurements from before count no more; what is known of links stays.
  void OnView(const wire::View& view);
  // Takes the measurements of a worker of the view in force.
  void Hear(uint64_t worker, const wire::Rates& rates);

  // Returns whether pieces should move.
  bool Wants() const { return wanted_.has_value(); }
  // Moves the pieces in `next`, the view that follows and begins with `epoch`, and reports this in
  // a line.
  void Place(wire::View& next, uint64_t epoch);

 private:
  struct Sum {
    uint64_t bytes = 0;
    uint64_t busy_us = 0;
    uint64_t active_us = 0;
  };
  void BeginMeasurement();
  bool IsComplete() const;
  std::vector<plan::Traffic> TrafficOfMeasurement() const;
  std::string Describe(const wire::View& next) const;

  const CoordinatorOptions& options_;
  CoordinatorDriver& driver_;
  const Roster& roster_;
  wire::View view_;
  HostMap map_;
  plan::PlacementKeeper keeper_;
  std::map<uint64_t, std::vector<Sum>> measurement_;  // by the worker that pushes, and by shard
  uint64_t burst_bytes_ = 0;                          // of all workers, in this measurement
  uint64_t burst_us_ = 0;
  std::optional<plan::Shares> wanted_;
};

}  // namespace byteps::protocol
