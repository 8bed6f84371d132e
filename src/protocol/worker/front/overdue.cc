#include "src/protocol/worker/front/overdue.h"

#include <algorithm>
#include <utility>

namespace byteps::protocol {
namespace {

bool IsAtItsName(const Tensor& tensor) {
  return tensor.task != nullptr && tensor.task->stage() == Stage::kDeclare;
}

wire::Use UseOf(const Tensor& tensor) { return tensor.lifetime.UseIn(tensor.round); }

}  // namespace

// The front has no clock. It knows only the time of the last answer, so the first look may come too
// early. The second look counts.
std::optional<Time> Overdue::NextLook(Time now) {
  if (!looks_) return std::nullopt;
  if (!next_look_.has_value()) next_look_ = now + every_;
  return next_look_;
}

void Overdue::Look(Time now) {
  next_look_ = now + every_;
  looks_ = false;
  std::vector<const Tensor*> late;
  for (const Name* name : names_.in_order()) {
    if (name->open == nullptr) continue;
    Task& task = *name->open->task;
    // A tensor without an id has told about its use when it asked for the id.
    if (task.seen && !task.reported && name->open->declared && !IsAtItsName(*name->open)) {
      task.reported = true;
      late.push_back(name->open);
    }
    task.seen = true;
    looks_ = looks_ || !task.reported;
  }
  if (!looks_) next_look_.reset();
  Report(late);
}

// Sends the report in messages of bounded size.
void Overdue::Report(const std::vector<const Tensor*>& late) const {
  wire::Overdue overdue;
  size_t bytes = 0;
  auto send = [&] {
    if (!overdue.uses.empty()) send_(overdue);
    overdue = wire::Overdue();
    bytes = 0;
  };
  for (const Tensor* tensor : late) {
    const Lifetime& lifetime = tensor->lifetime;
    wire::OverdueUse use{tensor->name, UseOf(*tensor), tensor->id, {}, IsStuckIn(*tensor)};
    for (const auto& [number, other] : lifetime.name.lifetimes) {
      if (number != lifetime.process_set) {
        use.elsewhere.push_back(other.UseIn(other.round));
      }
    }
    bytes += use.name.size() + wire::kControlUseBytes * (2 + use.elsewhere.size());
    overdue.uses.push_back(std::move(use));
    bool told = std::any_of(overdue.process_sets.begin(), overdue.process_sets.end(),
                            [&](const auto& set) { return set.number == lifetime.process_set; });
    if (lifetime.process_set != 0 && !told) {
      const PlacedSet& set = sets_.Of(lifetime.process_set);
      overdue.process_sets.push_back({lifetime.process_set, set.ranks});
      bytes += wire::kControlUseBytes + sizeof(uint32_t) * set.ranks.size();
    }
    if (bytes > wire::kControlPartBytes) send();
  }
  send();
}

void Overdue::TakeBack(const Tensor& tensor) const {
  if (tensor.task->reported)
    send_(wire::Overdue{{{tensor.name, UseOf(tensor), UINT32_MAX, {}}}, {}});
}

void Overdue::SetStuck(const std::string& name) {
  if (name == stuck_) return;
  std::string before = std::exchange(stuck_, name);
  ReportOpen(before);
  ReportOpen(name);
}

// Reports the open operation of this name again, because the earlier report is not complete any
// more.
void Overdue::ReportOpen(const std::string& name) const {
  const Name* found = names_.Find(name);
  const Tensor* open = found == nullptr ? nullptr : found->open;
  if (open != nullptr && open->task->reported) Report({open});
}

void Overdue::ReportAgain() const {
  std::vector<const Tensor*> late;
  for (const Name* name : names_.in_order()) {
    if (name->open != nullptr && name->open->task->reported) late.push_back(name->open);
  }
  Report(late);
}

// A join does not count: a rank that has joined keeps no other rank waiting.
bool Overdue::IsStuckIn(const Tensor& tensor) const {
  return !stuck_.empty() && tensor.name == stuck_ && !tensor.task->row.joins;
}

void Overdue::OnUnbegun(const wire::Unbegun& question) const {
  const Name* found = names_.Find(question.stuck.name);
  const Tensor* open = found == nullptr ? nullptr : found->open;
  if (open == nullptr || !open->task->reported || !IsStuckIn(*open)) return;
  if (UseOf(*open) != question.stuck.use) return;
  wire::Unbegun answer{question.stuck, {}};
  for (const wire::NamedUse& one : question.uses) {
    if (!HasBegun(one)) answer.uses.push_back(one);
  }
  if (!answer.uses.empty()) send_(answer);
}

// Returns whether this rank has begun this use or a later one.
bool Overdue::HasBegun(const wire::NamedUse& use) const {
  const Lifetime* lifetime = names_.FindLifetime(use);
  if (lifetime == nullptr) return false;
  const Tensor* open = lifetime->name.open;
  bool begins = open != nullptr && &open->lifetime == lifetime && IsAtItsName(*open);
  uint64_t round = begins ? joins_.NextRound(lifetime->round) : lifetime->round;
  return !lifetime->IsBefore(round, use.use);
}

}  // namespace byteps::protocol
