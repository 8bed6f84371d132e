#include "src/protocol/control/seeing/accounts.h"

#include <algorithm>
#include <set>
#include <utility>

#include "src/base/text.h"

namespace byteps::protocol {
namespace {

constexpr size_t kLinesMax = 4;
constexpr size_t kNamesMax = 3;
constexpr size_t kRanksMax = 8;
// A rank that was asked answers with its next account.
constexpr Duration kAnswerLimit = seconds(3);
constexpr Duration kLookAgain = milliseconds(500);
// A rank hears so long before its limit which ranks keep it waiting. The others are asked
// meanwhile.
constexpr Duration kNoteBefore = seconds(3);
constexpr size_t kNoteBytesMax = 512;

// Returns "rank 2", "ranks 0, 1 and 3" or "ranks 0, 1, ... and 12 more".
std::string RanksText(const std::vector<uint32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < std::min(ranks.size(), kRanksMax); ++i) {
    const bool last = i + 1 == ranks.size() && i > 0;
    text += (i == 0 ? "" : last ? " and " : ", ") + std::to_string(ranks[i]);
  }
  if (ranks.size() > kRanksMax) {
    text += " and " + std::to_string(ranks.size() - kRanksMax) + " more";
  }
  return text;
}

std::string HaveNotBegun(const std::vector<uint32_t>& ranks) {
  return RanksText(ranks) + (ranks.size() == 1 ? " has" : " have") + " not begun";
}

// Takes means that forget within seconds, whatever the time between two accounts is.
class Means {
 public:
  explicit Means(Duration passed) : passed_s_(std::max(ToSeconds(passed), 1e-3)) {}
  // Returns the mean of what grows in a second; the counter had these values.
  double Of(double rate, uint64_t last, uint64_t latest) const {
    constexpr double kForgetsAfter_s = 2;
    const double fresh = latest < last ? 0 : static_cast<double>(latest - last) / passed_s_;
    return rate + std::min(1.0, passed_s_ / kForgetsAfter_s) * (fresh - rate);
  }

 private:
  const double passed_s_;
};

// Copies of one direction come in order, so all others of this direction wait for the oldest.
// REQUIRES: there is one.
const wire::SlowCopy& OldestOf(const std::vector<wire::SlowCopy>& copies) {
  return *std::ranges::max_element(copies, {}, &wire::SlowCopy::age_ms);
}

bool HasCopyOf(const std::vector<wire::SlowCopy>& copies, const std::string& tensor) {
  return std::ranges::find(copies, tensor, &wire::SlowCopy::tensor) != copies.end();
}

// Returns the copy of this tensor that is under way, or else the oldest one. REQUIRES: there is
// one.
const wire::SlowCopy& CopyFor(const std::vector<wire::SlowCopy>& copies,
                              const std::string& tensor) {
  if (!HasCopyOf(copies, tensor)) return OldestOf(copies);
  return *std::ranges::find(copies, tensor, &wire::SlowCopy::tensor);
}

// Says what a rank does that waits for a copy. `passed`: the time since the rank has told of it.
std::string CopyText(const wire::SlowCopy& copy, Duration passed) {
  return "waits for a copy of '" + copy.tensor + (copy.to_device ? "' to " : "' from ") +
         copy.device + ", which has been under way for " +
         SecondsText(passed + milliseconds(copy.age_ms)) +
         ": its driver does not answer, or the device is busy";
}

bool IsOpen(wire::UseStage stage) {
  return stage == wire::UseStage::kDeclares || stage == wire::UseStage::kPrepares ||
         stage == wire::UseStage::kExchanges;
}

// Says when the first of these waits ends by itself. A wait that has passed its limit either ends
// at this moment, or is a join, which lasts while others go on.
std::string EndText(const std::vector<const Accounts::Wait*>& waits) {
  std::optional<Duration> left;
  for (const Accounts::Wait* one : waits) {
    if (one->left.has_value()) left = std::min(left.value_or(*one->left), *one->left);
  }
  if (left.value_or(Duration::zero()) < seconds(1)) return "";
  return ". The wait ends with an error in " + SecondsText(*left) + " (BYTEPS_OPERATION_TIMEOUT)";
}

std::string NamesText(const std::vector<const Accounts::Wait*>& waits) {
  std::string text;
  for (size_t i = 0; i < std::min(waits.size(), kNamesMax); ++i) {
    text += (i == 0 ? "'" : ", '") + waits[i]->use.name + "'";
  }
  if (waits.size() > kNamesMax) {
    text += " and " + std::to_string(waits.size() - kNamesMax) + " more";
  }
  return text;
}

}  // namespace

void Accounts::Take(uint32_t rank, uint64_t incarnation, const wire::Account& account, Time now) {
  if (account.uses.size() > 2 * wire::kUsesInAccountMax) return;  // no worker sends that
  Teller& teller = tellers_[rank];
  const Teller before = teller;
  teller = {incarnation, account, now, 0, 0, 0, now};
  if (before.incarnation != incarnation) {
    lateness_.Forget(rank);
  } else {
    Rate(before, teller);
    if (account.ended == before.account.ended) teller.ended_at = before.ended_at;
  }
  for (const wire::ProcessSetRanks& process_set : account.process_sets) {
    process_sets_[process_set.number] = process_set.ranks;
    std::sort(process_sets_[process_set.number].begin(), process_sets_[process_set.number].end());
  }
  lateness_.Take(rank, account.took, tellers_.size());
  LookForWaits();
}

void Accounts::Rate(const Teller& before, Teller& now) {
  const Means means(now.at - before.at);
  const wire::Account &last = before.account, &latest = now.account;
  now.operations_per_s = means.Of(before.operations_per_s, last.ended, latest.ended);
  now.bytes_per_s = means.Of(before.bytes_per_s, last.bytes, latest.bytes);
  const double waited_us = means.Of(before.waited_share * 1e6, last.waited_us, latest.waited_us);
  now.waited_share = std::min(1.0, waited_us / 1e6);
}

void Accounts::TakeServer(uint64_t incarnation, const wire::ServerAccount& account, Time now) {
  auto [found, is_new] = servers_.try_emplace(incarnation, ServerTeller{account, now, 0, 0, 0});
  if (is_new) return;
  ServerTeller& teller = found->second;
  const Means means(now - teller.at);
  const wire::ServerAccount& last = teller.account;
  teller.received_per_s = means.Of(teller.received_per_s, last.received, account.received);
  teller.sent_per_s = means.Of(teller.sent_per_s, last.sent, account.sent);
  teller.cpu_share = means.Of(teller.cpu_share * 1e6, last.cpu_us, account.cpu_us) / 1e6;
  teller.account = account;
  teller.at = now;
}

void Accounts::ForgetIf(const std::function<bool(uint64_t)>& gone) {
  std::erase_if(servers_, [&](const auto& entry) { return gone(entry.first); });
  const size_t before = tellers_.size();
  std::erase_if(tellers_, [&](const auto& entry) {
    const bool is_gone = gone(entry.second.incarnation);
    if (is_gone) lateness_.Forget(entry.first);
    return is_gone;
  });
  if (tellers_.size() != before) LookForWaits();
}

// Collects the uses that a rank has had open for long, and forgets process sets that no use names.
void Accounts::LookForWaits() {
  asked_.clear();
  waiting_since_.reset();
  std::map<uint32_t, std::vector<uint32_t>> process_sets;
  for (const auto& [rank, teller] : tellers_) {
    for (const wire::SlowCopy& one : teller.account.copies) {
      const Time since = teller.at - milliseconds(one.age_ms);
      waiting_since_ = std::min(waiting_since_.value_or(since), since);
    }
    for (const wire::UseState& one : teller.account.uses) {
      if (!IsOpen(one.stage)) continue;
      const Time since = teller.at - milliseconds(one.age_ms);
      waiting_since_ = std::min(waiting_since_.value_or(since), since);
      const uint32_t process_set = one.use.use.process_set;
      if (process_sets_.contains(process_set))
        process_sets[process_set] = process_sets_[process_set];
      const bool known = std::find(asked_.begin(), asked_.end(), one.use) != asked_.end();
      if (!known && asked_.size() < wire::kUsesInAccountMax) asked_.push_back(one.use);
    }
  }
  process_sets_ = std::move(process_sets);
  if (!waiting_since_.has_value()) next_report_.reset();
}

std::vector<uint32_t> Accounts::RanksOf(uint32_t process_set) const {
  if (auto found = process_sets_.find(process_set); found != process_sets_.end())
    return found->second;
  std::vector<uint32_t> ranks;
  for (const auto& [rank, teller] : tellers_) ranks.push_back(rank);
  return ranks;
}

std::vector<Accounts::Wait> Accounts::Waits(Time now) const {
  std::vector<Wait> waits;
  for (const wire::NamedUse& use : asked_) {
    Wait wait;
    wait.use = use;
    for (uint32_t rank : RanksOf(use.use.process_set)) {
      auto teller = tellers_.find(rank);
      if (teller == tellers_.end()) continue;  // it has left, or was lost
      const std::vector<wire::UseState>& uses = teller->second.account.uses;
      auto state = std::find_if(uses.begin(), uses.end(),
                                [&](const wire::UseState& one) { return one.use == use; });
      if (state == uses.end()) {
        wait.silent.push_back(rank);
      } else if (state->stage == wire::UseStage::kNotBegun ||
                 state->stage == wire::UseStage::kAwaitsInput) {
        wait.missing.push_back(rank);
      } else if (IsOpen(state->stage)) {
        wait.waiting.push_back(rank);
        wait.tensor = std::min(wait.tensor, state->tensor);
        wait.stage = std::min(wait.stage, state->stage);
        wait.age =
            std::max<Duration>(wait.age, now - teller->second.at + milliseconds(state->age_ms));
        if (state->left_ms == 0) continue;
        const Duration left = std::max<Duration>(
            Duration::zero(), milliseconds(state->left_ms) - (now - teller->second.at));
        wait.left = std::min(wait.left.value_or(left), left);
      }
    }
    waits.push_back(std::move(wait));
  }
  std::stable_sort(waits.begin(), waits.end(),
                   [](const Wait& a, const Wait& b) { return a.age > b.age; });
  return waits;
}

std::optional<Time> Accounts::NextDue() const {
  if (stall_after_ == Duration::zero() || !waiting_since_.has_value()) return std::nullopt;
  const Time first = *waiting_since_ + std::max(stall_after_, kAnswerLimit);
  return next_report_.has_value() ? std::max(first, *next_report_) : first;
}

// A rank that still talks and has not answered yet was asked a moment ago.
bool Accounts::MayAnswerSoon(const Wait& wait, Time now) const {
  if (wait.age >= std::max(stall_after_, kAnswerLimit) + kAnswerLimit) return false;
  return std::any_of(wait.silent.begin(), wait.silent.end(),
                     [&](uint32_t rank) { return now - tellers_.at(rank).at < kAnswerLimit; });
}

// Says what a rank does that others wait for in this tensor.
std::string Accounts::Doing(uint32_t rank, const std::string& tensor, Time now) const {
  auto found = tellers_.find(rank);
  if (found == tellers_.end()) return "has said nothing";
  const Teller& teller = found->second;
  if (now - teller.at > kAnswerLimit) {
    return "has said nothing for " + SecondsText(now - teller.at) + ": it stands still";
  }
  if (!teller.account.copies.empty()) {
    return CopyText(CopyFor(teller.account.copies, tensor), now - teller.at);
  }
  for (const wire::UseState& one : teller.account.uses) {
    if (one.stage != wire::UseStage::kAwaitsInput) continue;
    return "waits for the input of '" + one.use.name +
           "' on its device: the work of its stream has not ended";
  }
  for (const wire::UseState& one : teller.account.uses) {
    if (!IsOpen(one.stage)) continue;
    return "is in '" + one.use.name + "' and " + wire::TextFor(one.stage) + " there, for " +
           SecondsText(milliseconds(one.age_ms));
  }
  if (teller.account.open > 0) return "is in operations that it has just begun";
  return "has nothing open for " + SecondsText(milliseconds(teller.account.idle_ms)) +
         ": it is in its own program, which 'bps stack' on its machine shows";
}

// Returns a rank that has begun and waits for a copy of the tensor, or else for any copy: others
// may stand in its way.
std::optional<uint32_t> Accounts::WhoCopies(const Wait& wait) const {
  std::optional<uint32_t> who;
  for (uint32_t rank : wait.waiting) {
    auto found = tellers_.find(rank);
    if (found == tellers_.end()) continue;
    const std::vector<wire::SlowCopy>& copies = found->second.account.copies;
    if (HasCopyOf(copies, wait.use.name)) return rank;
    if (!who.has_value() && !copies.empty()) who = rank;
  }
  return who;
}

Duration Accounts::QuietOf(const Wait& wait, Time now) const {
  Duration quiet = Duration::max();
  for (uint32_t rank : wait.missing) quiet = std::min(quiet, now - tellers_.at(rank).ended_at);
  return quiet;
}

// All ranks of a stalled job ask at about the same time, so one search serves all of them.
std::vector<wire::UseNote> Accounts::NotesFor(uint32_t rank, Time now,
                                              const std::function<std::string(uint32_t)>& name) {
  auto teller = tellers_.find(rank);
  if (teller == tellers_.end()) return {};
  const std::vector<wire::UseState>& uses = teller->second.account.uses;
  const bool soon = std::any_of(uses.begin(), uses.end(), [](const wire::UseState& one) {
    return one.left_ms > 0 && milliseconds(one.left_ms) <= kNoteBefore && IsOpen(one.stage);
  });
  if (!soon) return {};
  if (!noted_at_.has_value() || now - *noted_at_ >= kLookAgain) {
    noted_ = Waits(now);
    noted_at_ = now;
  }
  std::vector<wire::UseNote> notes;
  for (const Wait& wait : noted_) {
    const bool waits =
        std::find(wait.waiting.begin(), wait.waiting.end(), rank) != wait.waiting.end();
    const bool known = std::all_of(wait.missing.begin(), wait.missing.end(),
                                   [&](uint32_t one) { return tellers_.contains(one); });
    if (!waits || !known) continue;
    if (wait.missing.empty()) {
      const std::optional<uint32_t> copies = WhoCopies(wait);
      if (!copies.has_value()) continue;
      const std::string why = name(*copies) + " " + Doing(*copies, wait.use.name, now);
      notes.push_back({wait.use, std::string(CutText(why, kNoteBytesMax)), 0});
      continue;
    }
    const uint32_t first = wait.missing.front();
    const int64_t quiet_ms = std::chrono::duration_cast<milliseconds>(QuietOf(wait, now)).count();
    const std::string others =
        HaveNotBegun(wait.missing) + " it: " + name(first) + " " + Doing(first, wait.use.name, now);
    notes.push_back({wait.use, std::string(CutText(others, kNoteBytesMax)),
                     static_cast<uint32_t>(std::clamp<int64_t>(quiet_ms, 0, UINT32_MAX))});
  }
  return notes;
}

std::vector<std::string> Accounts::Report(Time now,
                                          const std::function<std::string(uint32_t)>& name) {
  next_report_ = now + stall_after_;
  const std::vector<Wait> waits = Waits(now);
  // Waits with the same missing ranks share one line.
  std::vector<std::pair<std::vector<uint32_t>, std::vector<const Wait*>>> kinds;
  for (const Wait& wait : waits) {
    if (wait.age < stall_after_ || wait.waiting.empty()) continue;
    if (MayAnswerSoon(wait, now)) {
      next_report_ = now + kLookAgain;
      continue;
    }
    std::vector<uint32_t> whom = wait.missing.empty() ? wait.silent : wait.missing;
    auto kind = std::find_if(kinds.begin(), kinds.end(),
                             [&](const auto& one) { return one.first == whom; });
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), {std::move(whom), {}});
    kind->second.push_back(&wait);
  }
  std::vector<std::string> lines;
  std::set<uint32_t> named;  // ranks of which a line says what they do
  for (const auto& [whom, list] : kinds) {
    if (lines.size() == kLinesMax) break;
    const Wait& first = *list.front();
    std::string text =
        "stalled for " + SecondsText(first.age) + ": " + std::to_string(list.size()) +
        (list.size() == 1 ? " tensor, " : " tensors, ") + NamesText(list) + "; " +
        RanksText(first.waiting) + (first.waiting.size() == 1 ? " has" : " have") + " begun and " +
        (first.waiting.size() == 1 ? "" : "each ") + wire::TextFor(first.stage);
    const std::optional<uint32_t> copies = WhoCopies(first);
    if (whom.empty() && copies.has_value()) {
      text += "; no rank is missing. " + name(*copies) + " " + Doing(*copies, first.use.name, now);
      named.insert(*copies);
    } else if (whom.empty()) {
      text += "; no rank is missing, so a server or the network holds it up";
    } else {
      named.insert(whom.front());
      const bool answered = !first.missing.empty();
      text += "; " + RanksText(whom) + (whom.size() == 1 ? " has" : " have") +
              (answered ? " not begun" : " not answered") + ". " + name(whom.front()) + " " +
              Doing(whom.front(), first.use.name, now);
    }
    text += EndText(list);
    lines.push_back(std::move(text));
  }
  for (const auto& [rank, teller] : tellers_) {
    if (lines.size() == kLinesMax) break;
    if (named.contains(rank) || teller.account.copies.empty()) continue;
    const wire::SlowCopy& oldest = OldestOf(teller.account.copies);
    const Duration age = now - teller.at + milliseconds(oldest.age_ms);
    if (age < stall_after_) continue;
    lines.push_back("stalled for " + SecondsText(age) + ": " + name(rank) + " " +
                    Doing(rank, oldest.tensor, now));
  }
  return lines;
}

}  // namespace byteps::protocol
