#include "src/runtime/worker/accountant.h"

#include <algorithm>
#include <map>

#include "src/base/text.h"

namespace byteps::runtime {
namespace {

uint32_t Milliseconds(Duration duration) {
  const int64_t count = std::chrono::duration_cast<milliseconds>(duration).count();
  return static_cast<uint32_t>(std::clamp<int64_t>(count, 0, UINT32_MAX));
}

uint64_t Microseconds(Duration duration) {
  return static_cast<uint64_t>(std::chrono::duration_cast<microseconds>(duration).count());
}

// Sets the age of an operation, and the time that its limit leaves. Nobody knows when a join ends,
// so a join has no such time until it has passed its limit.
void SetAge(const OpenOperations::Age& age, bool joins, wire::UseState& state) {
  state.age_ms = Milliseconds(age.age);
  if (age.limit == Duration::zero() || (joins && age.age < age.limit)) return;
  state.left_ms = std::max<uint32_t>(1, Milliseconds(age.limit - age.age));
}

std::string WhyLate(uint32_t rank, const OpenOperations::Age& age) {
  const std::string who = "rank " + std::to_string(rank) + " has waited longer than ";
  // Limits below a second are for tests.
  const std::string limit = age.limit < seconds(1) ? std::to_string(Milliseconds(age.limit)) + " ms"
                                                   : SecondsText(age.limit);
  if (age.own_limit) return who + "its limit of " + limit;
  return who + "the limit of " + limit + " (BYTEPS_OPERATION_TIMEOUT)";
}

bool Has(const std::vector<wire::UseState>& states, const wire::NamedUse& use) {
  return std::any_of(states.begin(), states.end(),
                     [&](const wire::UseState& one) { return one.use == use; });
}

}  // namespace

void Accountant::Hear(const wire::Alive& alive) {
  asked_ = alive.asked;
  notes_ = alive.notes;
}

wire::Alive Accountant::Tell(Duration waited) {
  wire::Account account;
  const OpenOperations::Tally tally = operations_.TakeTally();
  account.ended = tally.ended;
  account.failed = tally.failed;
  account.bytes = tally.bytes;
  account.open = tally.open;
  account.idle_ms = Milliseconds(tally.idle);
  account.waited_us = Microseconds(waited);
  account.took = tally.took;
  const auto old = operations_.Oldest(kOldAfter, wire::kUsesInAccountMax);
  if (!old.empty()) {
    std::map<protocol::OperationId, wire::UseState> open = uses_.Open();
    for (const auto& [id, age] : old) {
      auto found = open.find(id);
      if (found == open.end()) continue;
      SetAge(age, uses_.has_joined(), found->second);
      account.uses.push_back(std::move(found->second));
    }
  }
  for (const wire::NamedUse& use : asked_) {
    if (account.uses.size() >= 2 * wire::kUsesInAccountMax) break;
    if (Has(account.uses, use)) continue;
    auto [state, id] = uses_.Of(use);
    if (id != 0) SetAge(operations_.AgeOf(id), uses_.has_joined(), state);
    account.uses.push_back(std::move(state));
  }
  account.process_sets = uses_.ProcessSetsOf(account.uses);
  account.copies = uses_.slow_copies();
  wire::Alive alive;
  alive.account = std::move(account);
  return alive;
}

std::vector<std::pair<protocol::OperationId, protocol::TooLate>> Accountant::Judge(
    uint32_t rank, const std::vector<protocol::OperationId>& late) const {
  std::vector<std::pair<protocol::OperationId, protocol::TooLate>> judged;
  std::map<protocol::OperationId, wire::UseState> open;
  if (!notes_.empty()) open = uses_.Open();
  for (protocol::OperationId id : late) {
    const OpenOperations::Age age = operations_.AgeOf(id);
    auto found = open.find(id);
    auto note = std::find_if(notes_.begin(), notes_.end(), [&](const wire::UseNote& one) {
      return found != open.end() && one.use == found->second.use;
    });
    const bool noted = note != notes_.end();
    const bool others_rest = noted && milliseconds(note->quiet_ms) >= age.limit;
    if (uses_.has_joined() && !others_rest) continue;
    judged.emplace_back(
        id, protocol::TooLate{WhyLate(rank, age), noted ? note->others : "", others_rest});
  }
  return judged;
}

}  // namespace byteps::runtime
