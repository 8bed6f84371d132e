#include "sim/member.h"

#include <algorithm>

#include "sim/coordinator_node.h"

namespace byteps::sim {
namespace {

constexpr Duration kPauseMin = milliseconds(20);
constexpr Duration kPauseMax = milliseconds(500);
constexpr Duration kPatience = seconds(30);

}  // namespace

MemberControl::MemberControl(Cluster& cluster, Endpoint* owner, uint32_t index, HostId host,
                             const wire::Join& self, Events events)
    : cluster_(cluster),
      owner_(owner),
      host_(host),
      events_(std::move(events)),
      role_(self.role),
      index_(index),
      is_sibling_(self.local_rank > 0),
      incarnation_(self.incarnation),
      membership_(self, protocol::RulesWith(cluster.options_.mistakes.membership)) {}

void MemberControl::Connect() {
  if (stopped_ || connection_.has_value()) return;
  uint32_t before = role_ == Role::kWorker ? 0 : cluster_.worker_count();
  CoordinatorNode* coordinator = cluster_.CoordinatorOf(before + index_);
  if (coordinator->dead || cluster_.network_.now() < cut_until_) return TryAgain();
  connection_ = cluster_.network_.Connect(
      host_, owner_, kControlTag, cluster_.options_.coordinator_host, coordinator, kControlTag);
  bool again = membership_.view().epoch != 0;
  if (again) {
    Note(Moment::kReported);
    for (const wire::Known& part : events_.known()) Send(part);
  }
  Send(membership_.Greeting());
  if (again) events_.on_back();
  if (cluster_.options_.heartbeat > Duration::zero() && !std::exchange(beating_, true)) Beat();
}

void MemberControl::Beat() {
  if (stopped_) return;
  Send(wire::Alive{});
  cluster_.network_.At(cluster_.network_.now() + cluster_.options_.heartbeat, owner_,
                       [this] { Beat(); });
}

void MemberControl::Send(const wire::Message& message) {
  if (!connection_.has_value() || stopped_) return;
  Frame& frame = cluster_.network_.NewFrame();
  MakeControl(frame, message);
  cluster_.network_.Send(*connection_, owner_, frame);
}

void MemberControl::OnFrame(ConnectionId connection, const Frame& frame) {
  if (stopped_ || connection != connection_) return;
  lost_since_.reset();
  pause_ = Duration::zero();
  wire::Message message = MessageOf(frame);
  protocol::Membership::Step step = membership_.OnMessage(message);
  if (step.view.has_value()) {
    // A member that is out of the view does not take the view.
    if (membership_.IsMember()) cluster_.OnViewInForce(incarnation_, *step.view);
    events_.on_view(*step.view);
    Note(Moment::kApplied);
  }
  if (std::holds_alternative<wire::Propose>(message)) Note(Moment::kProposed);
  if (step.answer.has_value()) Send(*step.answer);
  if (step.go_on) events_.on_go_on();
  if (!stopped_) events_.on_message(message);
}

void MemberControl::Note(Moment moment) {
  if (is_sibling_) return;  // only carriers and servers have moments
  bool worker = role_ == Role::kWorker;
  cluster_.Note(moment, worker ? index_ : kNobody, worker ? kNobody : index_);
}

void MemberControl::Cut(Time until) {
  cut_until_ = until;
  if (connection_.has_value()) cluster_.network_.Close(*connection_);
}

void MemberControl::OnLost(ConnectionId connection) {
  if (stopped_ || connection != connection_) return;
  connection_.reset();
  TryAgain();
}

void MemberControl::TryAgain() {
  Time now = cluster_.network_.now();
  if (!lost_since_.has_value()) lost_since_ = now;
  if (now - *lost_since_ > kPatience) {
    return events_.on_lost(
        {StatusCode::kPeerLost, "the coordinator was lost and did not come back"});
  }
  pause_ = std::clamp(pause_ * 2, kPauseMin, kPauseMax);
  cluster_.network_.At(now + pause_, owner_, [this] { Connect(); });
}

void MemberControl::Stop() {
  stopped_ = true;
  if (connection_.has_value()) cluster_.network_.Close(*connection_);
}

}  // namespace byteps::sim
