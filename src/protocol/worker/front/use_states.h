// The progress of the uses of names on this rank, for people: a stall report shows it. The class
// reads the data of the front, and decides nothing. One thread at a time.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/protocol/worker/exchange/device_memory.h"
#include "src/protocol/worker/front/joins.h"
#include "src/protocol/worker/front/names.h"
#include "src/protocol/worker/front/placed_sets.h"
#include "src/wire/accounts.h"
#include "src/wire/names.h"

namespace byteps::protocol {

class UseStates {
 public:
  UseStates(const Names& names, const PlacedSets& sets, const Joins& joins)
      : names_(names), sets_(sets), joins_(joins) {}

  // Returns the state of every open operation, by its number. The caller fills in the ages, here
  // and in Of.
  std::map<OperationId, wire::UseState> Open() const;
  // Returns the state of a use that another member asks about, and its open operation; 0: it has
  // none.
  std::pair<wire::UseState, OperationId> Of(const wire::NamedUse& use) const;
  void SetDeviceWaits(DeviceWaits waits) { device_waits_ = std::move(waits); }
  const std::vector<wire::SlowCopy>& slow_copies() const { return device_waits_.copies; }
  // Returns whether this rank waits in a join. It then has nothing else open.
  bool has_joined() const { return joins_.has_joined(); }
  // Returns the ranks of the process sets of these uses. Leaves out set 0.
  std::vector<wire::ProcessSetRanks> ProcessSetsOf(const std::vector<wire::UseState>& uses) const;

 private:
  wire::UseState StateOf(const Tensor& open) const;

  const Names& names_;
  const PlacedSets& sets_;
  const Joins& joins_;
  DeviceWaits device_waits_;
};

}  // namespace byteps::protocol
