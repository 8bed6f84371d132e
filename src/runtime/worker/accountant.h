// Makes a worker's accounts of itself, from which the coordinator makes stall reports and its
// status page. Judges operations that have passed their limit, by what the coordinator has told
// about the other ranks. Must be called on the loop's thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/base/time.h"
#include "src/protocol/worker/front/use_states.h"
#include "src/runtime/worker/open_operations.h"
#include "src/wire/accounts.h"
#include "src/wire/names.h"

namespace byteps::runtime {

class Accountant {
 public:
  // The worker tells about operations that have been open for this time even if nobody has asked.
  static constexpr Duration kOldAfter = seconds(1);

  Accountant(const protocol::UseStates& uses, OpenOperations& operations)
      : uses_(uses), operations_(operations) {}

  // Takes the questions and the notes of the coordinator.
  void Hear(const wire::Alive& alive);
  // `waited`: the time in which users have waited for operations.
  wire::Alive Tell(Duration waited);

  // Returns the operations among `late` that must end in an error, and why. `rank`: the own rank. A
  // join must end only when none of the ranks that it waits for has ended an operation during its
  // limit, because these ranks may have data for as long as they like.
  std::vector<std::pair<protocol::OperationId, protocol::TooLate>> Judge(
      uint32_t rank, const std::vector<protocol::OperationId>& late) const;

 private:
  const protocol::UseStates& uses_;
  OpenOperations& operations_;
  std::vector<wire::NamedUse> asked_;
  std::vector<wire::UseNote> notes_;
};

}  // namespace byteps::runtime
