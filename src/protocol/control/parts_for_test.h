// Views, members and messages for tests of the coordinator's parts.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "src/protocol/control/changes/state.h"
#include "src/protocol/control/control_driver_for_test.h"
#include "src/protocol/control/members/quorum.h"
#include "src/wire/membership.h"
#include "src/wire/view.h"

namespace byteps::protocol {

// Returns a view with workers 1..n that have slots and ranks 0..n-1, and servers 101..100+k. These
// numbers are incarnations; the process number is the incarnation, too.
inline wire::View JobView(uint64_t epoch, uint32_t workers, uint32_t servers) {
  wire::View view;
  view.epoch = epoch;
  view.generation = 1;
  view.began = 1;
  view.piece_bytes_max = 4096;
  for (uint32_t i = 0; i < workers; ++i) view.workers.push_back({i, i, i + 1, "h", i + 1, 0, 1});
  for (uint32_t i = 0; i < servers; ++i) {
    wire::ServerInfo server;
    server.index = i;
    server.incarnation = server.process = 101 + i;
    server.host = "h";
    server.shard_weights = {1};
    server.since = 1;
    view.servers.push_back(server);
  }
  return view;
}

inline wire::Join JoinOf(Role role, uint64_t incarnation, int32_t rank = -1) {
  wire::Join join;
  join.role = role;
  join.rank = rank;
  join.incarnation = incarnation;
  join.host = "h";
  join.process = static_cast<uint32_t>(incarnation);
  join.worker_count = 2;
  join.server_count = 1;
  join.shards = role == Role::kServer ? 1 : 0;
  join.piece_bytes_max = 4096;
  join.version = "1";
  return join;
}

// Adds a member on the connection that has the number of its incarnation.
inline Member& Add(Roster& roster, Role role, uint64_t incarnation, Presence presence,
                   int32_t rank = -1) {
  Member& member = roster.Add(incarnation, JoinOf(role, incarnation, rank));
  member.presence = presence;
  return member;
}

// The state of a coordinator. A test uses one part of it, and looks at the others.
class PartsTest : public testing::Test {
 protected:
  PartsTest() {
    options.worker_machines = 2;
    options.version = "1";
  }

  // Brings `view` into force. Its members are connected and have heard of it.
  void BringIntoForce(const wire::View& view) {
    for (const Voter& voter : VotersOf(view)) {
      if (roster.Find(voter.incarnation) != nullptr) continue;
      Add(roster, voter.role, voter.incarnation, Presence::kIn, static_cast<int32_t>(voter.index));
    }
    views.Propose(view);
    for (const Voter& voter : VotersOf(view)) {
      views.OnPromise(voter.incarnation, {views.term(), view.epoch});
    }
    ASSERT_TRUE(views.Advance().has_value());
    gathering.Stop();
    names.Begin(view);
    driver.sent.clear();
  }

  void Pass(Duration duration) {
    now += duration;
    clock.WaitFor(now);
    clock.Advance(now);
  }

  template <typename T>
  std::vector<T> To(ConnectionId id) const {
    return driver.To<T>(id);
  }

  Time now{};
  CoordinatorOptions options;
  ControlDriver driver;
  ListeningClock clock{now, seconds(3600)};
  CoordinatorState state{{options, driver, clock}};
  // The parts of the state, under their own names.
  JobMembers& members = state.members;
  Roster& roster = members.roster;
  Departures& departures = members.departures;
  ProcessEnds& ends = members.ends;
  Suspicions& suspicions = members.suspicions;
  SyncPoints& syncs = state.syncs;
  JobEnd& job_end = state.job_end;
  Views& views = state.views;
  MemberNotices& notices = state.notices;
  Gathering& gathering = state.gathering;
  NameDesk& names = state.names;
  Losses& losses = state.losses;
  Comeback& comeback = state.comeback;
  Latecomers& latecomers = state.latecomers;
};

}  // namespace byteps::protocol
