// A coordinator with members that answer it, for tests. The driver writes down what the coordinator
// sends. It hands each message to that member's Membership at once, unless the member is deaf.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/protocol/control/control_driver_for_test.h"
#include "src/protocol/control/coordinator.h"
#include "src/protocol/control/views/membership.h"

namespace byteps::protocol {

class ControlTest : public testing::Test {
 protected:
  // A job with two workers and one server with two shards. It needs all its workers.
  ControlTest() {
    options.worker_machines = 2;
    options.version = "1";
  }

  // Each call makes another process.
  wire::Join Join(Role role, int32_t rank) {
    wire::Join join;
    join.role = role;
    join.rank = rank;
    join.incarnation = next_incarnation++;
    join.host = "h";
    join.shards = role == Role::kServer ? 2 : 0;
    join.worker_count = options.worker_machines;
    join.server_count = options.server_count;
    join.piece_bytes_max = 32768;
    join.version = "1";
    join.process = 42;
    return join;
  }

  Coordinator& coordinator() {
    if (machine == nullptr) machine = std::make_unique<Coordinator>(options, driver, now);
    return *machine;
  }

  // Delivers the messages that were sent and not delivered yet.
  void Pump() {
    while (cursor < driver.sent.size()) {
      auto [to, message] = driver.sent[cursor++];
      auto found = members.find(to);
      if (found == members.end() || deaf.contains(to)) continue;
      if (drops != nullptr && drops(to, message)) continue;
      Membership::Step step = found->second.OnMessage(message);
      if (step.view.has_value()) applied[to].push_back(*step.view);
      if (step.answer.has_value()) coordinator().OnMessage(to, *step.answer, now);
    }
  }

  void Say(ConnectionId from, const wire::Message& message) {
    if (const auto* join = std::get_if<wire::Join>(&message)) {
      members.erase(from);
      members.emplace(from, *join);
    }
    coordinator().OnMessage(from, message, now);
    Pump();
  }

  void Lose(ConnectionId id) {
    coordinator().OnLost(id, "connection reset", now);
    Pump();
  }

  // Worker i on connection 10 + i, server i on 20 + i.
  void StartJob() {
    for (uint32_t i = 0; i < options.worker_machines; ++i) {
      Say(10 + i, Join(Role::kWorker, static_cast<int32_t>(i)));
    }
    for (uint32_t i = 0; i < options.server_count; ++i) {
      Say(20 + i, Join(Role::kServer, static_cast<int32_t>(i)));
    }
  }

  // Lets time pass. The members in `talkers` keep saying that they live.
  void Wait(Duration duration, const std::set<ConnectionId>& talkers = {}) {
    Time end = now + duration;
    while (now < end) {
      now = std::min(end, now + milliseconds(20));
      for (ConnectionId id : talkers) Say(id, wire::Alive{});
      while (coordinator().NextTick().has_value() && *coordinator().NextTick() <= now) {
        coordinator().OnTick(now);
        Pump();
      }
    }
  }

  // Stops the coordinator's process for a while. When it goes on, things that are due come before
  // words that were said.
  void StandStill(Duration duration) {
    now += duration;
    std::optional<Time> due = coordinator().NextTick();
    if (due.has_value() && *due <= now) coordinator().OnTick(now);
    Pump();
  }

  // Gives the process at `from` a new connection to the coordinator.
  void Reconnect(ConnectionId from, ConnectionId to) {
    auto node = members.extract(from);
    node.key() = to;
    members.insert(std::move(node));
    Say(to, members.at(to).Greeting());
  }

  // Ends the coordinator's process and begins another one. Connections are lost.
  void Restart() {
    machine = std::make_unique<Coordinator>(options, driver, now);
    cursor = driver.sent.size();
  }

  template <typename T>
  std::vector<T> To(ConnectionId id) const {
    return driver.To<T>(id);
  }

  const wire::View& ViewOf(ConnectionId id) const { return members.at(id).view(); }
  uint64_t IncarnationAt(ConnectionId id) const {
    wire::Message greeting = members.at(id).Greeting();
    if (const auto* join = std::get_if<wire::Join>(&greeting)) return join->incarnation;
    return std::get<wire::Report>(greeting).self.incarnation;
  }
  bool Said(const std::string& words) const { return driver.Said(words); }
  std::string EndText() const {
    return driver.finished.empty() ? "" : driver.finished[0].message();
  }

  CoordinatorOptions options;
  ControlDriver driver;
  Time now{};
  uint64_t next_incarnation = 1;
  std::unique_ptr<Coordinator> machine;
  std::map<ConnectionId, Membership> members;
  std::set<ConnectionId> deaf;
  std::function<bool(ConnectionId, const wire::Message&)> drops;  // messages that get lost
  std::map<ConnectionId, std::vector<wire::View>> applied;
  size_t cursor = 0;
};

}  // namespace byteps::protocol
