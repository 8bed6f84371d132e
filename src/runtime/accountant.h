// Makes a worker's accounts of itself, of which the coordinator makes stall reports and its status
// page. On the loop's thread.
#pragma once

#include <utility>
#include <vector>

#include "src/base/time.h"
#include "src/protocol/worker/use_states.h"
#include "src/runtime/open_operations.h"
#include "src/wire/control.h"

namespace byteps::runtime {

class Accountant {
 public:
  // Operations that are open for so long are told of without being asked about.
  static constexpr Duration kOldAfter = seconds(1);

  Accountant(const protocol::UseStates& uses, OpenOperations& operations)
      : uses_(uses), operations_(operations) {}

  // The coordinator wants to know how far these are.
  void Ask(std::vector<wire::NamedUse> asked) { asked_ = std::move(asked); }
  wire::Alive Tell();

 private:
  const protocol::UseStates& uses_;
  OpenOperations& operations_;
  std::vector<wire::NamedUse> asked_;
};

}  // namespace byteps::runtime
