// Process sets, and join: who takes part in what, and how shards come to know it.
#include <algorithm>

#include "src/protocol/worker/worker.h"

namespace byteps::protocol {
namespace {

Status Invalid(const std::string& text) { return {StatusCode::kInvalidArgument, text}; }

RankSet SetOf(const std::vector<uint32_t>& ranks) {
  RankSet set;
  for (uint32_t rank : ranks) set.Insert(rank);
  return set;
}

}  // namespace

const Worker::Group& Worker::GroupOf(const wire::TensorSpec& spec) const {
  return spec.group == 0 ? everybody_ : groups_.at(spec.group);
}

// Ranks that the generation has not, because they were lost before, are no part of it.
void Worker::ResolveGroup(Group& group) const {
  std::sort(group.ranks.begin(), group.ranks.end());
  group.places.clear();
  group.self = kNoPlace;
  group.slots = SlotSet();
  group.workers_of.clear();
  for (uint32_t rank : group.ranks) {
    auto found = std::find_if(roster_.begin(), roster_.end(),
                              [&](const wire::WorkerInfo& worker) { return worker.rank == rank; });
    if (found == roster_.end()) continue;
    if (found->slot == slot_) group.self = static_cast<uint32_t>(group.places.size());
    group.places.push_back(static_cast<uint32_t>(found - roster_.begin()));
    group.slots.Insert(found->slot);
  }
}

Status Worker::AddGroup(uint32_t number, const std::vector<uint32_t>& ranks) {
  const std::string name = "process set " + std::to_string(number);
  if (number == 0) return Invalid("process set 0 is all ranks; choose another number");
  if (groups_.contains(number)) {
    return Invalid(name + " was added before; numbers are never used again");
  }
  if (ranks.empty()) return Invalid(name + " has no ranks");
  Group group;
  group.ranks = ranks;
  ResolveGroup(group);
  if (group.places.size() != ranks.size()) {
    return Invalid(name + " has a rank that the job has not: it has ranks 0 to " +
                   std::to_string(members_ - 1));
  }
  if (std::adjacent_find(group.ranks.begin(), group.ranks.end()) != group.ranks.end()) {
    return Invalid(name + " has a rank twice");
  }
  bool inside = group.self != kNoPlace;
  if (inside && groups_in_ >= wire::kGroupsMax) {
    return {StatusCode::kExhausted, name + " cannot be added: this rank is in " +
                                        std::to_string(groups_in_) +
                                        " process sets, the most there can be; remove others"};
  }
  const Group& added = groups_[number] = std::move(group);
  if (!inside) return Status::Ok();
  ++groups_in_;
  TellGroup(number, SetOf(added.ranks));
  return Status::Ok();
}

void Worker::TellGroup(uint32_t number, const RankSet& ranks) {
  for (ShardId shard = 0; shard < links_.size(); ++shard) {
    if (links_[shard].up) driver_.SendGroup(shard, {number, epoch_}, ranks);
  }
}

Status Worker::RemoveGroup(uint32_t number) {
  auto found = groups_.find(number);
  if (found == groups_.end() || found->second.removed) {
    return Invalid("there is no process set " + std::to_string(number) + " to remove");
  }
  for (const Name* name : by_order_) {
    if (name->open == nullptr || name->open->spec.group != number) continue;
    return Invalid("process set " + std::to_string(number) + " cannot be removed: '" + name->text +
                   "' has not ended; wait for it first");
  }
  found->second.removed = true;
  if (found->second.self == kNoPlace) return Status::Ok();
  --groups_in_;
  TellGroup(number, SlotSet());
  return Status::Ok();
}

void Worker::TellGroups(ShardId shard) {
  for (const auto& [number, group] : groups_) {
    if (!group.removed && group.self != kNoPlace) {
      driver_.SendGroup(shard, {number, epoch_}, SetOf(group.ranks));
    }
  }
}

void Worker::TellJoined(ShardId shard) {
  if (told_joined_ != 0) driver_.SendJoined(shard, {told_joined_, epoch_});
}

// Nothing else is open, so no shard waits for this rank in vain from now on.
void Worker::BeginJoin(Tensor& tensor) {
  tensor.task->table = {rank_, 0};
  told_joined_ = uint64_t{joins_} + 1;
  for (ShardId shard = 0; shard < links_.size(); ++shard) {
    if (links_[shard].up) TellJoined(shard);
  }
}

// After an error that shards were told of, this rank does not know which rounds it has missed, and
// begins no other one.
void Worker::EndJoin(Task& task, bool with_success) {
  if (!with_success) {
    joining_ = told_joined_ != 0;
    return;
  }
  task.outcome.rows = alone_ ? rank_ : task.table[1];
  ++joins_;
  joining_ = false;
  told_joined_ = 0;
}

// All workers of a view that take part in the tensor's operation.
const Receipt& Worker::WorkersOf(const Tensor& tensor, uint64_t epoch) {
  const Receipt& all = workers_of_.at(epoch);
  if (tensor.spec.group == 0) return all;
  Group& group = groups_.at(tensor.spec.group);
  Receipt& members = group.workers_of[epoch];
  if (members == nullptr) members = std::make_shared<SlotSet>(all->And(group.slots));
  return members;
}

}  // namespace byteps::protocol
