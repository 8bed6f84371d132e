#include "src/protocol/control/views/membership.h"

#include <algorithm>

namespace byteps::protocol {

Membership::Membership(const wire::Join& self, const MembershipRules& rules)
    : self_(self), rules_(rules) {}

wire::Message Membership::Greeting() const {
  if (term_ == 0 && committed_.epoch == 0) return self_;
  return MakeReport();
}

wire::Report Membership::MakeReport() const {
  return {self_, term_, committed_, promised_term_, promised_, syncs_};
}

bool Membership::Obeys(uint64_t term) const { return rules_.Obeys(term, term_); }

bool Membership::Contains(const wire::View& view) const {
  auto same = [&](const auto& member) { return member.incarnation == self_.incarnation; };
  if (self_.role == Role::kWorker) {
    return std::any_of(view.workers.begin(), view.workers.end(), same);
  }
  return std::any_of(view.servers.begin(), view.servers.end(),
                     [&](const wire::ServerInfo& server) { return same(server) && server.alive; });
}

std::optional<wire::View> Membership::Apply(const wire::View& view) {
  // A process that obeys a coordinator of another job is no member of its own job any more.
  bool another_job = committed_.epoch > 0 && view.epoch > 0 && view.founder != committed_.founder;
  bool later = view.epoch > committed_.epoch || another_job;
  if (!later || IsEvicted()) return std::nullopt;
  // A process that promised a view with itself in it, and slept through its commit, was a member.
  was_member_ = was_member_ || (promised_.epoch <= view.epoch && Contains(promised_));
  if (promised_.epoch <= view.epoch) {
    promised_ = {};
    promised_term_ = 0;
  }
  bool in = Contains(view);
  // This process has not been let in yet, so the other members' views do not concern it.
  if (!in && !was_member_) return std::nullopt;
  if (view.generation != committed_.generation) syncs_ = 0;
  committed_ = view;
  member_ = in;
  was_member_ = was_member_ || in;
  return view;
}

Membership::Step Membership::OnMessage(const wire::Message& message) {
  if (const auto* propose = std::get_if<wire::Propose>(&message)) return OnPropose(*propose);
  if (const auto* commit = std::get_if<wire::Commit>(&message)) return OnCommit(*commit);
  if (const auto* go_on = std::get_if<wire::GoOn>(&message)) return OnGoOn(*go_on);
  const auto* query = std::get_if<wire::Query>(&message);
  if (query == nullptr || !Obeys(query->term)) return {};
  term_ = std::max(term_, query->term);
  return {std::nullopt, MakeReport(), false};
}

Membership::Step Membership::OnPropose(const wire::Propose& propose) {
  if (!Obeys(propose.term)) return {};
  term_ = std::max(term_, propose.term);
  Step step;
  step.view = Apply(propose.present);
  // The view may be in force already, by an earlier coordinator's word.
  bool known = propose.next == committed_;
  if (propose.next.epoch <= committed_.epoch && !known) return step;
  if (!known) {
    promised_ = propose.next;
    promised_term_ = propose.term;
  }
  step.answer = wire::Promise{propose.term, propose.next.epoch};
  if (rules_.ActsOnProposal()) {
    std::optional<wire::View> view = Apply(propose.next);
    if (view.has_value()) step.view = view;
  }
  return step;
}

Membership::Step Membership::OnCommit(const wire::Commit& commit) {
  if (!Obeys(commit.term)) return {};
  term_ = std::max(term_, commit.term);
  return {Apply(commit.view), std::nullopt, false};
}

// An answer to an earlier point says nothing of the next one.
Membership::Step Membership::OnGoOn(const wire::GoOn& go_on) {
  if (go_on.generation != committed_.generation || go_on.point != syncs_ + 1) return {};
  ++syncs_;
  return {std::nullopt, std::nullopt, true};
}

}  // namespace byteps::protocol
