#include "src/transport/rdma/upgrade.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>

namespace byteps::transport {
namespace {

enum class Said { kOffer, kAccept, kDecline, kSwitch };

// Two ends, and all that is on its way between them. Number 0 offers.
struct World {
  Upgrade ends[2];
  std::deque<Said> tcp[2];  // from the end with this number
  bool connected[2] = {};
  bool was_connected[2] = {};  // it may have given up meanwhile
  bool probe_flies[2] = {};
  bool confirmation_flies[2] = {};
  bool peer_came[2] = {};
  bool is_confirmed[2] = {};
  bool may_fail[2] = {};
  Status closed;
  bool loses_probes = false;

  void Do(int end, const Upgrade::Steps& steps) {
    if (steps.offer) tcp[end].push_back(Said::kOffer);
    if (steps.accept) tcp[end].push_back(Said::kAccept);
    if (steps.decline) tcp[end].push_back(Said::kDecline);
    if (steps.accept || steps.connect) connected[end] = was_connected[end] = true;
    if (steps.probe) {
      EXPECT_TRUE(connected[end]);
      EXPECT_TRUE(was_connected[1 - end]) << "a probe leaves before its receiver is ready";
      probe_flies[end] = true;
    }
    if (steps.give_up) connected[end] = false;
    if (!steps.closes.ok()) closed = steps.closes;
  }
  void Hear(int end) {
    Said said = tcp[1 - end].front();
    tcp[1 - end].pop_front();
    Upgrade& of = ends[end];
    switch (said) {
      case Said::kOffer: return Do(end, of.OnOffer());
      case Said::kAccept: return Do(end, of.OnAccept());
      case Said::kDecline: return Do(end, of.OnDecline({Decline::Code::kFailed, "it failed"}));
      case Said::kSwitch: return Do(end, of.OnSwitch());
    }
  }
};

// Walks through all orders of events.
class Walk {
 public:
  void From(const World& world) {
    ASSERT_NE(world.closed.code(), StatusCode::kProtocol) << world.closed.ToString();
    if (!world.closed.ok()) {
      ++closed;
      return;
    }
    bool moved = false;
    auto go = [&](auto change) {
      World next = world;
      change(next);
      From(next);
    };
    for (int end : {0, 1}) {
      if (testing::Test::HasFatalFailure()) return;
      if (world.may_fail[end]) {
        go([&](World& w) {
          w.may_fail[end] = false;
          w.Do(end, w.ends[end].Fail({Decline::Code::kNotProven, "too late"}));
        });
      }
      if (!world.tcp[1 - end].empty()) {
        moved = true;
        go([&](World& w) { w.Hear(end); });
      }
      // A message over RDMA comes through if both queue pairs are there.
      bool arrives = world.connected[0] && world.connected[1] && !world.loses_probes;
      if (world.probe_flies[end] && arrives) {
        moved = true;
        go([&](World& w) {
          w.probe_flies[end] = false;
          w.confirmation_flies[end] = true;
          w.peer_came[1 - end] = true;
          w.Do(1 - end, w.ends[1 - end].OnPeerProbe());
        });
      }
      if (world.confirmation_flies[end] && world.connected[end]) {
        moved = true;
        go([&](World& w) {
          w.confirmation_flies[end] = false;
          w.is_confirmed[end] = true;
          w.Do(end, w.ends[end].OnProbeConfirmed());
        });
      }
      if (world.ends[end].WantsSwitch()) {
        moved = true;
        ASSERT_TRUE(world.peer_came[end] && world.is_confirmed[end]) << "a switch without proof";
        go([&](World& w) {
          w.tcp[end].push_back(Said::kSwitch);
          w.ends[end].OnSwitched();
        });
      }
    }
    if (!moved) AtRest(world);
  }

  void AtRest(const World& world) {
    const Upgrade& a = world.ends[0];
    const Upgrade& b = world.ends[1];
    ASSERT_EQ(a.sends_over_rdma(), b.receives_over_rdma());
    ASSERT_EQ(b.sends_over_rdma(), a.receives_over_rdma());
    if (a.sends_over_rdma() && b.sends_over_rdma()) {
      ++switched;
    } else if (a.is_declined() && b.is_declined()) {
      ASSERT_FALSE(a.sends_over_rdma() || b.sends_over_rdma());
      ++declined;
    } else {
      // The limit of time will end it, at one of them at least.
      ASSERT_TRUE(a.IsOpen() || b.IsOpen());
      ++waiting;
    }
  }

  int switched = 0;
  int declined = 0;
  int closed = 0;
  int waiting = 0;
};

World Begun() {
  World world;
  world.Do(0, world.ends[0].Begin());
  return world;
}

TEST(UpgradeTest, WithoutAFailureEveryOrderEndsOverRdma) {
  Walk walk;
  walk.From(Begun());
  EXPECT_GT(walk.switched, 10);
  EXPECT_EQ(walk.declined + walk.closed + walk.waiting, 0);
}

TEST(UpgradeTest, AFailureAtAnyMomentLeavesBothEndsAgreed) {
  World world = Begun();
  world.may_fail[0] = world.may_fail[1] = true;
  Walk walk;
  walk.From(world);
  EXPECT_GT(walk.switched, 10);
  EXPECT_GT(walk.declined, 10);
  EXPECT_GT(walk.closed, 10);
}

TEST(UpgradeTest, ProbesThatGetLostEndInARefusalAndNeverInASwitch) {
  World world = Begun();
  world.loses_probes = true;
  Walk silent;
  silent.From(world);
  EXPECT_EQ(silent.switched + silent.closed + silent.declined, 0);
  world.may_fail[0] = world.may_fail[1] = true;
  Walk limited;
  limited.From(world);
  EXPECT_GT(limited.declined, 10);
  EXPECT_EQ(limited.switched + limited.closed, 0);
}

TEST(UpgradeTest, WhatNoCorrectPeerSendsClosesTheConnection) {
  using Steps = Upgrade::Steps;
  auto closes = [](const Steps& steps) { return steps.closes.code() == StatusCode::kProtocol; };
  const Decline none{Decline::Code::kNoDevice, "none"};
  Upgrade plain;
  EXPECT_TRUE(closes(plain.OnAccept()));
  EXPECT_TRUE(closes(plain.OnSwitch()));
  EXPECT_TRUE(closes(plain.OnDecline(none)));
  Upgrade offered;
  offered.Begin();
  EXPECT_TRUE(closes(offered.OnOffer())) << "two offers";
  EXPECT_TRUE(closes(offered.OnSwitch())) << "no proof yet";
  Upgrade accepted;
  accepted.OnOffer();
  EXPECT_TRUE(closes(accepted.OnOffer()));
  EXPECT_TRUE(closes(accepted.OnAccept()));
  Upgrade told;
  told.Begin();
  EXPECT_FALSE(closes(told.OnDecline(none)));
  EXPECT_TRUE(closes(told.OnDecline(none)));
  EXPECT_TRUE(closes(told.OnAccept()));
  EXPECT_TRUE(closes(told.OnSwitch()));
  Upgrade twice;
  twice.OnOffer();
  twice.OnPeerProbe();
  EXPECT_FALSE(closes(twice.OnSwitch()));
  EXPECT_TRUE(closes(twice.OnSwitch()));
}

// Each end closes by itself, whatever the other one does.
TEST(UpgradeTest, ARefusalThatMeetsASwitchClosesTheConnectionAtBothEnds) {
  Upgrade switched;
  switched.Begin();
  switched.OnAccept();
  switched.OnPeerProbe();
  switched.OnProbeConfirmed();
  ASSERT_TRUE(switched.WantsSwitch());
  switched.OnSwitched();
  const Decline failed{Decline::Code::kFailed, "it failed"};
  EXPECT_EQ(switched.OnDecline(failed).closes.code(), StatusCode::kUnavailable);
  Upgrade refused;
  refused.OnOffer();
  EXPECT_TRUE(refused.Fail(failed).decline);
  EXPECT_EQ(refused.OnSwitch().closes.code(), StatusCode::kUnavailable);
}

TEST(UpgradeTest, TheReasonIsKept) {
  Upgrade end;
  end.Begin();
  Upgrade::Steps steps = end.Fail({Decline::Code::kNoRoom, "no memory"});
  EXPECT_TRUE(steps.decline && steps.give_up);
  EXPECT_EQ(end.why().text, "no memory");
  EXPECT_FALSE(end.Fail({Decline::Code::kFailed, "again"}).decline) << "it is said once";
}

}  // namespace
}  // namespace byteps::transport
