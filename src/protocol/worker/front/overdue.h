// Reports operations that do not end, so that the coordinator finds ranks that wait for each other
// in a circle (control/stuck_ranks.h). Nothing else would find them: a rank that uses a name with a
// spec that it knows asks nobody. A worker reports each operation once, when it is open at a second
// look, and whether its user's process can begin anything before that operation has ended. Asked,
// it says which uses of names it has not begun. One thread at a time.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/base/time.h"
#include "src/protocol/worker/front/joins.h"
#include "src/protocol/worker/front/names.h"
#include "src/protocol/worker/front/placed_sets.h"

namespace byteps::protocol {

class Overdue {
 public:
  using Send = std::function<void(const wire::Message&)>;
  // Looks are `every` apart.
  Overdue(const Names& names, const PlacedSets& sets, const Joins& joins, Duration every, Send send)
      : names_(names), sets_(sets), joins_(joins), every_(every), send_(std::move(send)) {}

  // An operation has begun.
  void OnBegun() { looks_ = true; }
  // When to look next, if there is something to look for. `now`: of the last event.
  std::optional<Time> NextLook(Time now);
  void Look(Time now);

  // The user's process can begin nothing before the open operation of this name has ended; empty:
  // it can.
  void SetStuck(const std::string& name);
  void OnUnbegun(const wire::Unbegun& question) const;
  // To a coordinator that has forgotten it.
  void ReportAgain() const;
  // The open operation, which may have been reported, ends in an error. It may be waited for in
  // another way soon.
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
