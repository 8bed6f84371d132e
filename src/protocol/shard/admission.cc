#include "src/protocol/shard/admission.h"

#include <utility>

namespace byteps::protocol {

void Admission::Ask(Visitor visitor) {
  if (visitor.generation > generation_) return waiting_.push_back(std::move(visitor));
  visitor.answer(Check(visitor.slot, visitor.incarnation, visitor.generation));
}

void Admission::OnView(const wire::View& view) {
  generation_ = view.generation;
  carriers_.clear();
  for (const wire::Contributor& contributor : wire::ContributorsOf(view)) {
    carriers_[contributor.slot] = contributor.carrier().incarnation;
  }
  for (Visitor& visitor : std::exchange(waiting_, {})) Ask(std::move(visitor));
}

Status Admission::Check(Slot slot, uint64_t incarnation, uint32_t generation) const {
  auto carrier = carriers_.find(slot);
  if (carrier == carriers_.end() || carrier->second != incarnation) {
    return {StatusCode::kEvicted, "this worker is not in the present view of the job"};
  }
  if (generation == generation_) return Status::Ok();
  return {StatusCode::kUnavailable, "a newer generation of the job has begun"};
}

void WorkerLinks::OnView(const wire::View& view, ShardId self) {
  bool begins = view.generation != std::exchange(generation_, view.generation);
  admission_.OnView(view);
  for (auto it = incarnations_.begin(); it != incarnations_.end();) {
    bool in_view = admission_.Check(it->first, it->second, generation_).ok();
    if (!begins && !rules_.IsCutOff(in_view)) {
      ++it;
      continue;
    }
    Slot slot = it->first;
    it = incarnations_.erase(it);
    shard_.OnLost(slot);
    close_(slot);
  }
  shard_.OnView(view, self);
}

bool WorkerLinks::Bind(Slot slot, uint64_t incarnation, uint32_t generation) {
  if (!admission_.Check(slot, incarnation, generation).ok()) return false;
  if (IsBound(slot)) close_(slot);
  shard_.OnLost(slot);
  incarnations_[slot] = incarnation;
  return true;
}

uint64_t WorkerLinks::OnClosed(Slot slot) {
  auto gone = incarnations_.extract(slot);
  shard_.OnLost(slot);
  return gone.empty() ? 0 : gone.mapped();
}

}  // namespace byteps::protocol
