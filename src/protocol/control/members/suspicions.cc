#include "src/protocol/control/members/suspicions.h"

#include <algorithm>

namespace byteps::protocol {
namespace {

// The coordinator doubts its own link for this long at most. A switch that restarts takes seconds;
// members look for the coordinator for thirty.
constexpr Duration kDoubtMax = seconds(12);
// Words that were held up on the way come at different times. The longer the cut was, the later
// they come.
constexpr Duration kHoldMin = seconds(1);
constexpr Duration kHoldMax = seconds(4);

}  // namespace

void Suspicions::Watch(uint64_t who, uint64_t company, Duration silence_max, Time now) {
  auto [found, fresh] = watched_.try_emplace(who);
  found->second.company = company;
  found->second.silence_max = silence_max;
  if (fresh) found->second.heard = now;
}

void Suspicions::ForgetAllBut(const std::set<uint64_t>& these) {
  std::erase_if(watched_, [&](const auto& entry) { return !these.contains(entry.first); });
}

void Suspicions::Heard(uint64_t who, Time now) {
  auto found = watched_.find(who);
  if (found == watched_.end()) return;
  Watched& one = found->second;
  one.heard = now;
  if (!one.parties.contains(kOwnConnection)) one.parties.clear();
}

void Suspicions::Back(uint64_t who, Time now) {
  auto found = watched_.find(who);
  if (found == watched_.end()) return;
  found->second.parties.clear();
  found->second.exit_hint = false;
  found->second.cut_off = false;
  Heard(who, now);
}

void Suspicions::Closed(uint64_t who, uint64_t party, const std::string& why, Time now) {
  auto found = watched_.find(who);
  if (found == watched_.end()) return;
  Watched& one = found->second;
  if (one.parties.empty()) {
    one.closed = now;
    one.why = why;
  }
  one.parties.insert(party);
  if (party == kOwnConnection) LookForCompany(one, now);
}

void Suspicions::CutOff(uint64_t who, const std::string& why) {
  auto found = watched_.find(who);
  if (found == watched_.end()) return;
  found->second.cut_off = true;
  if (found->second.parties.empty()) found->second.why = why;
}

// If the connections of several companies close at one moment, the cause most likely lies between
// them and the coordinator.
void Suspicions::LookForCompany(Watched& one, Time now) {
  one.went = now;
  one.in_company = false;
  for (auto& [who, other] : watched_) {
    bool went_too = other.went.has_value() && *other.went + settle_ >= now;
    if (!went_too || other.company == one.company) continue;
    one.in_company = other.in_company = true;
  }
}

void Suspicions::HintExit(uint64_t who, Time now) {
  auto found = watched_.find(who);
  if (found == watched_.end()) return;
  found->second.exit_hint = true;
  if (!IsAway(who)) found->second.closed = now;
}

bool Suspicions::IsAway(uint64_t who) const {
  auto found = watched_.find(who);
  return found != watched_.end() && found->second.IsAway();
}

bool Suspicions::IsAnyAway() const {
  return std::ranges::any_of(watched_, [](const auto& entry) { return entry.second.IsAway(); });
}

std::optional<Time> Suspicions::HeardAt(uint64_t who) const {
  auto found = watched_.find(who);
  if (found == watched_.end()) return std::nullopt;
  return found->second.heard;
}

bool Suspicions::IsCutOff(uint64_t who) const {
  auto found = watched_.find(who);
  return found != watched_.end() && found->second.cut_off;
}

std::optional<Time> Suspicions::DueOf(const Watched& one) const {
  if (one.IsGone() && one.exit_hint) return one.closed;
  if (one.IsGone() && !one.in_company) return std::max(one.closed + settle_, held_until_);
  std::optional<Time> due;
  if (!one.parties.empty()) due = std::max(one.closed + grace_, held_until_);
  if (one.silence_max == Duration::zero()) return due;
  Time silence = std::max(one.heard + one.silence_max, held_until_);
  return due.has_value() ? std::min(*due, silence) : silence;
}

std::optional<Time> Suspicions::NextDue() const {
  std::optional<Time> next;
  for (const auto& [who, one] : watched_) {
    std::optional<Time> due = DueOf(one);
    if (due.has_value() && (!next.has_value() || *due < *next)) next = due;
  }
  return next;
}

bool Suspicions::MostAreSilent(Time now) const {
  std::map<uint64_t, bool> silent;  // by company: whether all of it is silent
  for (const auto& [who, one] : watched_) {
    bool is = one.silence_max > Duration::zero() && one.heard + one.silence_max / 2 <= now;
    bool& all = silent.try_emplace(one.company, true).first->second;
    all = all && is;
  }
  auto count =
      std::count_if(silent.begin(), silent.end(), [](auto& entry) { return entry.second; });
  return 2 * static_cast<size_t>(count) > silent.size();
}

// Silence counts again a while after the coordinator has heard most members.
void Suspicions::DoubtOwnLink(Time now) {
  if (!MostAreSilent(now)) {
    if (now >= held_until_) doubted_since_.reset();
    return;
  }
  if (!doubted_since_.has_value()) doubted_since_ = now;
  Time end = *doubted_since_ + kDoubtMax;
  Duration hold = std::clamp<Duration>(now - *doubted_since_, kHoldMin, kHoldMax);
  if (now < end) held_until_ = std::min(end, now + hold);
}

std::vector<Suspicions::Loss> Suspicions::Judge(Time now) {
  DoubtOwnLink(now);
  std::vector<Loss> losses;
  for (auto& [who, one] : watched_) {
    std::optional<Time> due = DueOf(one);
    if (!due.has_value() || *due > now) continue;
    bool closed = one.IsGone() || (!one.parties.empty() && one.closed + grace_ <= now);
    if (closed) {
      losses.push_back({who, one.why, one.IsGone() && one.exit_hint});
    } else {
      auto silent = std::chrono::duration_cast<milliseconds>(now - one.heard);
      std::string why = "it has been silent for " + std::to_string(silent.count()) + " ms";
      if (one.cut_off) why += " (" + one.why + ")";
      losses.push_back({who, why});
    }
  }
  for (const Loss& loss : losses) watched_.erase(loss.who);
  return losses;
}

}  // namespace byteps::protocol
