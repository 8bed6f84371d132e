// How far the uses of names are on this rank, for people: what a stall report says. Reads what the
// front works on, and decides nothing. One thread at a time.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "src/protocol/worker/front/joins.h"
#include "src/protocol/worker/front/names.h"
#include "src/protocol/worker/front/placed_sets.h"
#include "src/wire/control.h"

namespace byteps::protocol {

class UseStates {
 public:
  UseStates(const Names& names, const PlacedSets& sets, const Joins& joins)
      : names_(names), sets_(sets), joins_(joins) {}

  // Of every open operation, by its number. Ages are the caller's to fill in, here and below.
  std::map<OperationId, wire::UseState> Open() const;
  // Of a use that somebody asks about, and the open operation that it is; 0: none.
  std::pair<wire::UseState, OperationId> Of(const wire::NamedUse& use) const;
  // This rank waits in a join, and has nothing else open.
  bool has_joined() const { return joins_.has_joined(); }
  // The ranks of the process sets of these uses, except for 0.
  std::vector<wire::GroupRanks> GroupsOf(const std::vector<wire::UseState>& uses) const;

 private:
  wire::UseState StateOf(const Tensor& open) const;

  const Names& names_;
  const PlacedSets& sets_;
  const Joins& joins_;
};

}  // namespace byteps::protocol
