#include "src/protocol/control/views/recovery.h"

#include <algorithm>
#include <utility>

namespace byteps::protocol {

Recovery::Recovery(uint64_t term, wire::View known, const CoordinatorRules& rules)
    : term_(term), latest_(std::move(known)), job_is_known_(latest_.epoch > 0), rules_(&rules) {}

void Recovery::OnReport(const wire::Report& report) {
  if (report.term == term_) reports_[report.self.incarnation] = report;
  if (!HasReadEnough()) Take(report.committed);
}

void Recovery::OnCommitted(const wire::View& view) {
  job_is_known_ = true;
  if (view.epoch > latest_.epoch) latest_ = view;
  completed_ = true;
}

void Recovery::Take(const wire::View& in_force) {
  if (job_is_known_) {
    bool later = in_force.epoch > latest_.epoch && in_force.founder == latest_.founder;
    if (later) latest_ = in_force;
    return;
  }
  wire::View& known = latest_of_[in_force.founder];
  if (in_force.epoch > known.epoch) known = in_force;
  Incarnations reported;
  for (const auto& [incarnation, report] : reports_) reported.insert(incarnation);
  auto rank = [&](const wire::View& view) {
    return std::pair(IsReadQuorum(view, reported), view.epoch);
  };
  latest_ = std::max_element(latest_of_.begin(), latest_of_.end(), [&](auto& a, auto& b) {
              return rank(a.second) < rank(b.second);
            })->second;
}

bool Recovery::HasQuorum(const Incarnations& dead) const {
  if (HasReadEnough()) return true;
  if (reports_.empty()) return false;
  if (latest_.epoch == 0) {
    // Nobody had a vote before the first view, because all its members had to promise it.
    const wire::Report* best = BestPromise();
    return best != nullptr && MissingOf(MembersOf(best->promised)).empty();
  }
  Incarnations reported;
  for (const auto& [incarnation, report] : reports_) reported.insert(incarnation);
  return VotersOf(latest_).empty() || rules_->MayRead(latest_, reported, dead);
}

std::optional<wire::View> Recovery::Promised() const {
  if (HasReadEnough() || !rules_->CompletesPromised(latest_)) return std::nullopt;
  const wire::Report* best = BestPromise();
  if (best == nullptr) return std::nullopt;
  return best->promised;
}

const wire::Report* Recovery::BestPromise() const {
  const wire::Report* best = nullptr;
  for (const auto& [incarnation, report] : reports_) {
    if (report.promised.epoch != latest_.epoch + 1) continue;
    if (latest_.epoch > 0 && report.promised.founder != latest_.founder) continue;
    if (best == nullptr || report.promised_term > best->promised_term) best = &report;
  }
  return best;
}

std::string Recovery::Missing() const {
  const wire::Report* best = BestPromise();
  bool first = latest_.epoch == 0 && best != nullptr;
  return MissingOf(first ? MembersOf(best->promised) : VotersOf(latest_));
}

std::string Recovery::MissingOf(const std::vector<Voter>& asked) const {
  std::string text;
  for (const Voter& voter : asked) {
    if (reports_.contains(voter.incarnation)) continue;
    text += (text.empty() ? "" : ", ") + NameOf(voter);
  }
  return text;
}

}  // namespace byteps::protocol
