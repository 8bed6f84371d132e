#include "src/protocol/worker/front/joins.h"

#include <string>

#include "src/operations/row.h"

namespace byteps::protocol {
namespace {

Status InvalidJoin(const std::string& text) { return {StatusCode::kInvalidArgument, text}; }

}  // namespace

Status Joins::Check(const Operation& operation, size_t open) const {
  if (wants_) {
    return InvalidJoin(
        "'" + operation.name +
        "' cannot begin: this rank has joined, and takes part again when all have; wait "
        "for the join (if that has failed, shut down)");
  }
  if (!operations::RowOf(operation.spec.op).joins) return Status::Ok();
  if (operation.spec.process_set != 0) {
    return InvalidJoin("join is for all ranks and cannot be of a process set");
  }
  if (open > 0) {
    return InvalidJoin("join '" + operation.name + "': " + std::to_string(open) +
                       " operations of this rank have not ended; wait for them first");
  }
  if (done_ >= wire::kJoinsMax) {
    return {StatusCode::kExhausted, "join '" + operation.name + "': the ranks have joined " +
                                        std::to_string(done_) + " times; start the job again"};
  }
  return Status::Ok();
}

}  // namespace byteps::protocol
