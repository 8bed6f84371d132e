// Reports operations that do not end, so that the coordinator finds ranks that wait for each other
// in a circle (control/names/stuck_ranks.h). Nothing else would find them, because a rank that uses
// a name with a known spec does not ask the coordinator. A worker reports each operation once, when
// it is open at a second look. The report says whether the user's process can begin anything before
// that operation has ended. If the coordinator asks, the worker answers which uses of names it has
// not begun. One thread at a time.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/base/time.h"
#include "src/protocol/worker/front/joins.h"
#include "src/protocol/worker/front/names.h"
#include "src/protocol/worker/front/placed_sets.h"
#include "src/wire/control.h"

namespace byteps::protocol {

class Overdue {
 public:
  using Send = std::function<void(const wire::Message&)>;
  // `every`: the time between two looks.
  Overdue(const Names& names, const PlacedSets& sets, const Joins& joins, Duration every, Send send)
      : names_(names), sets_(sets), joins_(joins), every_(every), send_(std::move(send)) {}

  // Notes that an operation has begun.
  void OnBegun() { looks_ = true; }
  // Returns the time of the next look, if there is something to look for. `now`: the time of the
  // last event.
  std::optional<Time> NextLook(Time now);
  void Look(Time now);

  // Notes that the user's process can begin nothing before the open operation of this name has
  // ended. An empty name: the process can begin operations.
  void SetStuck(const std::string& name);
  void OnUnbegun(const wire::Unbegun& question) const;
  // Reports the late operations again, to a coordinator that has forgotten them.
  void ReportAgain() const;
  // Takes back the report of the open operation, if it was reported, because it ends in an error.
  // The ranks may wait for the operation in another way soon.
  void TakeBack(const Tensor& tensor) const;

 private:
  void Report(const std::vector<const Tensor*>& late) const;
  void ReportOpen(const std::string& name) const;
  bool IsStuckIn(const Tensor& tensor) const;
  bool HasBegun(const wire::NamedUse& use) const;

  const Names& names_;
  const PlacedSets& sets_;
  const Joins& joins_;
  const Duration every_;
  const Send send_;
  std::string stuck_;
  bool looks_ = false;  // some open operation may become overdue
  std::optional<Time> next_look_;
};

}  // namespace byteps::protocol
