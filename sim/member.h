// The connection of a member to the coordinator. It connects, connects again after a loss, greets,
// says that it lives, and keeps the views.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "sim/cluster.h"
#include "sim/network.h"
#include "src/protocol/control/views/membership.h"

namespace byteps::sim {

inline constexpr uint32_t kControlTag = UINT32_MAX;

class MemberControl {
 public:
  struct Events {
    std::function<void(const wire::View&)> on_view;        // a newer view is in force
    std::function<void(const wire::Message&)> on_message;  // all others
    std::function<std::vector<wire::Known>()> known;       // to tell a coordinator before a report
    std::function<void()> on_back;                         // a coordinator has been greeted again
    std::function<void()> on_go_on;                        // the sync point is over
    std::function<void(const Status&)> on_lost;            // none came back in time
  };

  // `index` is the number of the worker or the server.
  MemberControl(Cluster& cluster, Endpoint* owner, uint32_t index, HostId host,
                const wire::Join& self, Events events);

  void Connect();
  void Send(const wire::Message& message);
  void OnFrame(ConnectionId connection, const Frame& frame);
  void OnLost(ConnectionId connection);
  void Stop();
  // Closes the connection; the next one is not made before `until`.
  void Cut(Time until);

  const protocol::Membership& membership() const { return membership_; }
  uint64_t incarnation() const { return incarnation_; }
  std::optional<ConnectionId> connection() const { return connection_; }

 private:
  void TryAgain();
  void Note(Moment moment);
  void Beat();

  Cluster& cluster_;
  Endpoint* owner_;
  HostId host_;
  Events events_;
  Role role_;
  uint32_t index_;
  bool is_sibling_;
  uint64_t incarnation_;
  protocol::Membership membership_;
  std::optional<ConnectionId> connection_;
  std::optional<Time> lost_since_;
  Time cut_until_{};
  Duration pause_{};
  bool beating_ = false;
  bool stopped_ = false;
};

}  // namespace byteps::sim
