#include "src/runtime/accountant.h"

#include <algorithm>

namespace byteps::runtime {
namespace {

uint32_t Milliseconds(Duration duration) {
  const int64_t count = std::chrono::duration_cast<milliseconds>(duration).count();
  return static_cast<uint32_t>(std::clamp<int64_t>(count, 0, UINT32_MAX));
}

bool Has(const std::vector<wire::UseState>& states, const wire::NamedUse& use) {
  return std::any_of(states.begin(), states.end(),
                     [&](const wire::UseState& one) { return one.use == use; });
}

}  // namespace

wire::Alive Accountant::Tell() {
  wire::Account account;
  const OpenOperations::Tally tally = operations_.TakeTally();
  account.ended = tally.ended;
  account.failed = tally.failed;
  account.bytes = tally.bytes;
  account.open = tally.open;
  account.idle_ms = Milliseconds(tally.idle);
  account.took = tally.took;
  const auto old = operations_.Oldest(kOldAfter, wire::kUsesInAccountMax);
  if (!old.empty()) {
    std::map<protocol::OperationId, wire::UseState> open = uses_.Open();
    for (const auto& [id, age] : old) {
      auto found = open.find(id);
      if (found == open.end()) continue;
      found->second.age_ms = Milliseconds(age);
      account.uses.push_back(std::move(found->second));
    }
  }
  for (const wire::NamedUse& use : asked_) {
    if (account.uses.size() >= 2 * wire::kUsesInAccountMax) break;
    if (Has(account.uses, use)) continue;
    auto [state, id] = uses_.Of(use);
    if (id != 0) state.age_ms = Milliseconds(operations_.AgeOf(id));
    account.uses.push_back(std::move(state));
  }
  account.groups = uses_.GroupsOf(account.uses);
  wire::Alive alive;
  alive.account = std::move(account);
  return alive;
}

}  // namespace byteps::runtime
