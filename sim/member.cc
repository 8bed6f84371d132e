#include "sim/member.h"

#include <algorithm>

#include "sim/cluster.h"
#include "sim/nodes.h"

namespace byteps::sim {
namespace {

constexpr Duration kPauseMin = milliseconds(20);
constexpr Duration kPauseMax = milliseconds(500);
constexpr Duration kPatience = seconds(30);

}  // namespace

MemberControl::MemberControl(Cluster& cluster, Endpoint* owner, HostId host, const NodeClock& clock,
                             const wire::Join& self, Events events)
    : cluster_(cluster),
      owner_(owner),
      host_(host),
      clock_(clock),
      events_(std::move(events)),
      membership_(self, cluster.options_.mistakes.membership) {}

void MemberControl::Connect() {
  if (stopped_ || connection_.has_value()) return;
  CoordinatorNode* coordinator = cluster_.coordinator_.get();
  if (coordinator->dead) return TryAgain();
  connection_ = cluster_.network_.Connect(
      host_, owner_, kControlTag, cluster_.options_.coordinator_host, coordinator, kControlTag);
  bool again = membership_.view().epoch != 0;
  if (again) {
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
    cluster_.OnViewInForce(*step.view);
    events_.on_view(*step.view);
  }
  if (step.answer.has_value()) Send(*step.answer);
  if (!stopped_) events_.on_message(message);
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
