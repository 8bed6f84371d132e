// Makes a worker's accounts of itself, of which the coordinator makes stall reports and its status
// page; and judges operations that have passed their limit, by what the coordinator tells of the
// others. On the loop's thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/base/time.h"
#include "src/protocol/worker/front/use_states.h"
#include "src/runtime/worker/open_operations.h"
#include "src/wire/control.h"

namespace byteps::runtime {

class Accountant {
 public:
  // Operations that are open for so long are told of without being asked about.
  static constexpr Duration kOldAfter = seconds(1);

  Accountant(const protocol::UseStates& uses, OpenOperations& operations)
      : uses_(uses), operations_(operations) {}

  // What the coordinator wants to know, and what it tells.
  void Hear(const wire::Alive& alive);
  wire::Alive Tell();

  // Which of the operations of rank `rank` that have passed their limits are to end in an error,
  // and why. A join ends only when no rank that it waits for has ended an operation for so long:
  // these may have data for as long as they like.
  std::vector<std::pair<protocol::OperationId, protocol::TooLate>> Judge(
      uint32_t rank, const std::vector<protocol::OperationId>& late) const;

 private:
  const protocol::UseStates& uses_;
  OpenOperations& operations_;
  std::vector<wire::NamedUse> asked_;
  std::vector<wire::UseNote> notes_;
};

}  // namespace byteps::runtime
