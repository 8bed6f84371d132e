#include "src/session/admission.h"

#include <algorithm>

#include "src/base/text.h"
#include "src/operations/check.h"
#include "src/operations/row.h"

namespace byteps::session {
namespace {

Status Refused(const std::string& text) { return {StatusCode::kInvalidArgument, text}; }

operations::Work WorkOf(const protocol::Operation& operation) {
  operations::Work work{.spec = operation.spec, .name = operation.name};
  work.input = operation.input;
  work.output = operation.output;
  work.rows = operation.rows;
  work.splits = operation.splits;
  return work;
}

}  // namespace

Result<const Admission::Open*> Admission::Admit(protocol::Operation& operation) {
  Status checked = operations::CheckArguments(WorkOf(operation));
  if (!checked.ok()) return checked;
  MutexLock lock(mutex_);
  checked = CheckJoin(operation);
  if (checked.ok()) checked = CheckPlace(operation);
  if (!checked.ok()) return checked;
  auto [holder, is_new] = open_.try_emplace(operation.name, operation.spec);
  if (!is_new) {
    return Status(StatusCode::kDuplicateName,
                  "tensor '" + operation.name + "' is already in flight, with " +
                      operations::Describe(holder->second) +
                      "; wait for it, or give the second one another name");
  }
  joined_ = operations::RowOf(operation.spec.op).joins;
  return &*holder;
}

// A rank joins only when it has no open operation, and then opens none.
Status Admission::CheckJoin(const protocol::Operation& operation) const {
  if (joined_) {
    return Refused("'" + operation.name +
                   "' cannot begin: this rank has joined, and takes part again when all have; wait "
                   "for the join (if that has failed, shut down)");
  }
  if (!operations::RowOf(operation.spec.op).joins) return Status::Ok();
  if (operation.spec.process_set != 0) {
    return Refused("join is for all ranks and cannot be of a process set");
  }
  if (open_.empty()) return Status::Ok();
  return Refused("join '" + operation.name + "': " + std::to_string(open_.size()) +
                 " operations of this rank have not ended; wait for them first");
}

uint64_t Admission::OutputBytes(const protocol::Operation& operation) const {
  MutexLock lock(mutex_);
  auto set = sets_.find(operation.spec.process_set);
  if (set == sets_.end()) return 0;
  operations::Work work = WorkOf(operation);
  auto self = std::ranges::lower_bound(set->second, rank_);
  work.place = {set->second, static_cast<uint32_t>(self - set->second.begin())};
  return operations::RowOf(operation.spec.op).output(work).bytes;
}

Status Admission::CheckPlace(protocol::Operation& operation) const {
  const uint32_t number = operation.spec.process_set;
  auto set = sets_.find(number);
  if (set == sets_.end()) {
    return Refused("'" + operation.name + "' is of process set " + std::to_string(number) +
                   ", which this rank does not know; add it on every rank first");
  }
  const std::vector<uint32_t>& ranks = set->second;
  auto self = std::lower_bound(ranks.begin(), ranks.end(), rank_);
  if (self == ranks.end() || *self != rank_) {
    return Refused("'" + operation.name + "' is of process set " + std::to_string(number) +
                   ", which has ranks " + ListText(ranks) + " and not rank " +
                   std::to_string(rank_));
  }
  operations::Work work = WorkOf(operation);
  work.place = {ranks, static_cast<uint32_t>(self - ranks.begin())};
  return operations::CheckPlace(work, operation.splits);
}

void Admission::Close(const Open* open, const Status& how) {
  MutexLock lock(mutex_);
  if (operations::RowOf(open->second.op).joins && how.ok()) joined_ = false;
  open_.erase(open_.find(open->first));
}

void Admission::AddSet(uint32_t number, const std::vector<uint32_t>& ranks) {
  std::vector<uint32_t> sorted = ranks;
  std::sort(sorted.begin(), sorted.end());
  MutexLock lock(mutex_);
  sets_[number] = std::move(sorted);
}

void Admission::RemoveSet(uint32_t number) {
  MutexLock lock(mutex_);
  sets_.erase(number);
}

}  // namespace byteps::session
