#include "src/protocol/control/views/view_change.h"

#include <algorithm>
#include <utility>

namespace byteps::protocol {
namespace {

bool Contains(const std::vector<Voter>& voters, uint64_t incarnation) {
  return std::any_of(voters.begin(), voters.end(),
                     [&](const Voter& voter) { return voter.incarnation == incarnation; });
}

}  // namespace

ViewChange::ViewChange(uint64_t term, wire::View present, wire::View next, bool completes)
    : term_(term), present_(std::move(present)), next_(std::move(next)), completes_(completes) {}

void ViewChange::OnPromise(uint64_t from, const wire::Promise& promise) {
  if (promise.term == term_ && promise.epoch == next_.epoch) promised_.insert(from);
}

bool ViewChange::StartsFromNothing(const Incarnations& dead) const {
  std::vector<Voter> voters = VotersOf(present_);
  return std::all_of(voters.begin(), voters.end(),
                     [&](const Voter& voter) { return dead.contains(voter.incarnation); });
}

bool ViewChange::AllOfNextPromised() const {
  std::vector<Voter> voters = MembersOf(next_);
  return std::all_of(voters.begin(), voters.end(),
                     [&](const Voter& voter) { return promised_.contains(voter.incarnation); });
}

bool ViewChange::MayCommit(const Incarnations& dead) const {
  if (StartsFromNothing(dead)) return AllOfNextPromised();
  if (!IsWriteQuorum(present_, promised_, dead)) return false;
  if (completes_) return true;
  std::vector<Voter> present = MembersOf(present_);
  std::vector<Voter> next = MembersOf(next_);
  return std::all_of(next.begin(), next.end(), [&](const Voter& voter) {
    return Contains(present, voter.incarnation) || promised_.contains(voter.incarnation) ||
           waived_.contains(voter.incarnation);
  });
}

std::string ViewChange::Missing(const Incarnations& dead) const {
  std::vector<Voter> asked = StartsFromNothing(dead) ? MembersOf(next_) : VotersOf(present_);
  std::string text;
  for (const Voter& voter : asked) {
    if (promised_.contains(voter.incarnation) || dead.contains(voter.incarnation)) continue;
    text += (text.empty() ? "" : ", ") + NameOf(voter);
  }
  return text;
}

}  // namespace byteps::protocol
