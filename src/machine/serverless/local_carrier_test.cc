#include "src/machine/serverless/local_carrier.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "src/machine/machine_for_test.h"

namespace byteps::machine {
namespace {

class LocalCarrierTest : public testing::Test {
 protected:
  static wire::Message Declare(const std::string& name, int64_t count, uint64_t round = 1) {
    wire::TensorSpec spec;
    spec.shape = {count};
    return wire::Declare{name, 0, spec, round};
  }
  void Say(uint32_t rank, const LocalWords::ToCarrier& word) { carrier.OnWord(rank, word, now); }
  void Begin(uint32_t rank, TensorId tensor) {
    LocalFacts facts;
    facts.ranks = 0b11;
    facts.pieces = {{1, 64}};
    Say(rank, Begun{{tensor, 1, 0}, facts, 0});
  }
  // Returns the last word that a rank was told, if it is of this kind.
  template <typename Kind>
  const Kind* Last(uint32_t rank) {
    return said[rank].empty() ? nullptr : std::get_if<Kind>(&said[rank].back());
  }
  template <typename Kind>
  const Kind* LastMessage(uint32_t rank) {
    const auto* message = Last<wire::Message>(rank);
    return message == nullptr ? nullptr : std::get_if<Kind>(message);
  }

  WindowForTest window{{.ranks = 2, .blocks = 2, .block_bytes = 4096}};
  std::map<uint32_t, std::vector<LocalWords::ToRank>> said;
  LocalCarrier carrier{
      window.of(0),
      {.ranks = 2,
       .piece_bytes_max = 4096,
       .plan = [this](const std::vector<HasDevice>& all) { devices = all.size(); },
       .tell = [](const std::string&, bool) {}},
      [this](uint32_t rank, const LocalWords::ToRank& word) { said[rank].push_back(word); }};
  Time now{};
  size_t devices = 0;  // for which a plan was asked for
};

TEST_F(LocalCarrierTest, ANameIsTheSameTensorForAll) {
  Say(0, Declare("w", 10));
  Say(1, Declare("w", 10));
  ASSERT_NE(LastMessage<wire::Declared>(0), nullptr);
  ASSERT_NE(LastMessage<wire::Declared>(1), nullptr);
  EXPECT_EQ(*LastMessage<wire::Declared>(0), *LastMessage<wire::Declared>(1));
}

TEST_F(LocalCarrierTest, ADifferenceIsToldToAllWithBothSides) {
  Say(0, Declare("w", 10));
  Say(1, Declare("w", 11));
  for (uint32_t rank : {0, 1}) {
    const auto* failed = LastMessage<wire::DeclareFailed>(rank);
    ASSERT_NE(failed, nullptr);
    EXPECT_EQ(failed->code, StatusCode::kMismatch);
    EXPECT_NE(failed->text.find("float32[10]"), std::string::npos) << failed->text;
    EXPECT_NE(failed->text.find("float32[11]"), std::string::npos) << failed->text;
  }
}

TEST_F(LocalCarrierTest, WhatAllHaveBegunGetsABlock) {
  Begin(1, 1);
  EXPECT_FALSE(carrier.Admit());
  EXPECT_TRUE(carrier.IsIdle());
  Begin(0, 1);
  EXPECT_TRUE(carrier.Admit());
  EXPECT_FALSE(carrier.IsIdle());
  local::AdmittedUse at = *window.of(1).NextAfter(0).value();
  for (uint32_t rank : {0, 1}) window.of(rank).Filled(at);
  window.of(0).SumShare(at);
  for (uint32_t rank : {0, 1}) window.of(rank).Release(at);
  EXPECT_FALSE(carrier.Admit());
  EXPECT_TRUE(carrier.IsIdle());
  EXPECT_TRUE(said.empty()) << "the window says it all";
}

TEST_F(LocalCarrierTest, WhoLeavesIsAnsweredBehindTheEndOfWhatNeedsIt) {
  Begin(0, 1);
  Say(1, Leaves());
  EXPECT_NE(Last<MayLeave>(1), nullptr);
  const auto* failed = Last<Failed>(0);
  ASSERT_NE(failed, nullptr);
  EXPECT_EQ(failed->status.code(), StatusCode::kPeerLost);
  Say(0, Leaves());
  carrier.Close();
  EXPECT_EQ(said[1].size(), 1u) << "it has left";
}

TEST_F(LocalCarrierTest, AllHearThatNobodyCarriesAnyMore) {
  Say(0, Leaves());
  carrier.Close();
  EXPECT_NE(Last<CarrierLeaves>(1), nullptr);
}

TEST_F(LocalCarrierTest, WhoGivesUpEndsTheJobForAll) {
  Say(1, GaveUp{"no memory"});
  for (uint32_t rank : {0, 1}) {
    const auto* over = Last<JobOver>(rank);
    ASSERT_NE(over, nullptr);
    EXPECT_EQ(over->status.code(), StatusCode::kPeerLost);
    EXPECT_EQ(over->status.message().rfind("worker 1 was lost: no memory", 0), 0u);
  }
}

// Rank 0 waits for "a" and rank 1 for "b", and neither can begin the other.
TEST_F(LocalCarrierTest, RanksThatWaitForEachOtherAreTold) {
  const char* names[] = {"a", "b"};
  for (uint32_t rank : {0, 1}) {
    for (const char* name : names) Say(rank, Declare(name, 10));
  }
  for (uint32_t rank : {0, 1}) {
    wire::OverdueUse use;
    use.name = names[rank];
    use.use = {0, 0, 1, rank + 1};
    use.tensor = rank + 1;
    use.stuck = true;
    Say(rank, wire::Message(wire::Overdue{{use}, {}}));
  }
  for (uint32_t rank : {0, 1}) {
    const auto* question = LastMessage<wire::Unbegun>(rank);
    if (question == nullptr) continue;
    Say(rank, wire::Message(*question));
  }
  ASSERT_TRUE(carrier.NextTick().has_value());
  now = *carrier.NextTick();
  carrier.OnTick(now);
  EXPECT_FALSE(carrier.NextTick().has_value());
  for (uint32_t rank : {0, 1}) {
    const auto* failed = LastMessage<wire::DeclareFailed>(rank);
    ASSERT_NE(failed, nullptr);
    EXPECT_EQ(failed->code, StatusCode::kOutOfStep) << failed->text;
  }
}

TEST_F(LocalCarrierTest, WhatIsSmallIsOverWhenAllHaveBegun) {
  std::vector<std::byte> memory(SmallMemory::BytesFor(2));
  const SmallMemory small(memory, 2);
  LocalCarrier one(
      window.of(0), {.ranks = 2, .piece_bytes_max = 4096, .small = small},
      [this](uint32_t rank, const LocalWords::ToRank& word) { said[rank].push_back(word); });
  LocalFacts facts;
  facts.ranks = 0b11;
  facts.pieces = {{1, 4}};
  const float parts[] = {1, 2};
  for (uint32_t rank : {1, 0}) {
    EXPECT_TRUE(said.empty());
    std::memcpy(small.At(rank, 5), &parts[rank], 4);
    one.OnWord(rank, Begun{{1, 1, 0}, facts, 0, {5, 0, 4}}, now);
  }
  EXPECT_FALSE(one.Admit()) << "it needs no block";
  for (uint32_t rank : {0, 1}) {
    ASSERT_NE(Last<Combined>(rank), nullptr);
    EXPECT_EQ(Last<Combined>(rank)->ranks, 0b11u);
    float sum = 0;
    std::memcpy(&sum, small.At(rank, 5), 4);
    EXPECT_EQ(sum, 3);
  }
  // Rank 0 has no place, so a block takes the parts.
  one.OnWord(0, Begun{{2, 1, 0}, facts, {}}, now);
  one.OnWord(1, Begun{{2, 1, 0}, facts, 0, {5, 0, 4}}, now);
  EXPECT_TRUE(one.Admit());
}

TEST_F(LocalCarrierTest, ARankIsSilentIfItsNextAccountDoesNotCome) {
  using protocol::MemberState;
  LocalCarrier seldom(window.of(0), {.ranks = 2, .account_every = seconds(1)},
                      [](uint32_t, const LocalWords::ToRank&) {});
  wire::Alive alive;
  alive.account.emplace();
  for (LocalCarrier* one : {&carrier, &seldom}) one->OnWord(1, wire::Message(alive), now);
  auto state = [&](const LocalCarrier& one, Duration later) {
    return one.Describe(now + later).members[1].state;
  };
  EXPECT_EQ(state(carrier, milliseconds(600)), MemberState::kIn);
  EXPECT_EQ(state(carrier, milliseconds(900)), MemberState::kSilent);
  EXPECT_EQ(state(seldom, milliseconds(1200)), MemberState::kIn);
  EXPECT_EQ(state(seldom, milliseconds(1500)), MemberState::kSilent);
}

// Two ranks with a device each. The test plays what plans.
class GroupsOfLocalCarrierTest : public LocalCarrierTest {
 protected:
  GroupsOfLocalCarrierTest() {
    for (uint32_t rank : {0, 1}) Say(rank, HasDevice{"GPU-" + std::to_string(rank)});
  }
  void BeginOnDevices(TensorId tensor, DataType type = DataType::kFloat32,
                      Combine how = Combine::kSum) {
    for (uint32_t rank : {0, 1}) {
      LocalFacts facts;
      facts.ranks = 0b11;
      facts.type = type;
      facts.how = how;
      facts.pieces = {{1, 64}};
      Begun begun{{tensor, 1, 0}, facts};
      begun.on_device = true;
      Say(rank, begun);
    }
  }
  void Decide() {
    PlannedSums plan;
    plan.groups = {{{0, 1}, {}}};
    plan.ids.resize(1);
    carrier.OnPlan(plan);
    for (uint32_t rank : {0, 1}) Say(rank, Met());
  }
  size_t UsesOf(uint32_t rank) {
    size_t uses = 0;
    for (uint64_t last = 0; auto at = window.of(rank).NextAfter(last).value(); ++uses) {
      last = at->number;
    }
    return uses;
  }
};

TEST_F(GroupsOfLocalCarrierTest, ARoundOnDevicesWaitsForTheChoice) {
  EXPECT_EQ(devices, 2u);
  BeginOnDevices(1);
  Begin(0, 2);
  Begin(1, 2);
  carrier.Admit();
  EXPECT_EQ(UsesOf(1), 1u) << "a round in host memory goes on";
  Decide();
  EXPECT_NE(Last<SumsSo>(1), nullptr);
  EXPECT_TRUE(carrier.Admit());
  for (uint32_t rank : {0, 1}) {
    const auto* launch = Last<UnitLaunch>(rank);
    ASSERT_NE(launch, nullptr);
    EXPECT_EQ(launch->kind, device::Launch::Kind::kReduceAll);
  }
  EXPECT_EQ(UsesOf(1), 1u);
  carrier.OnLaunchEnd();
  EXPECT_TRUE(carrier.Admit());
  EXPECT_EQ(UsesOf(1), 2u);
}

TEST_F(GroupsOfLocalCarrierTest, TheWindowTakesWhatNobodyCouldDivide) {
  Decide();
  BeginOnDevices(1, DataType::kInt32, Combine::kAverage);
  carrier.Admit();
  EXPECT_EQ(UsesOf(1), 1u);
  EXPECT_EQ(Last<UnitLaunch>(1), nullptr);
  BeginOnDevices(2, DataType::kFloat32, Combine::kAverage);
  carrier.Admit();
  EXPECT_NE(Last<UnitLaunch>(1), nullptr);
}

TEST_F(GroupsOfLocalCarrierTest, AGroupThatFailsEndsItsRoundsAndLaterOnesTakeTheWindow) {
  Decide();
  BeginOnDevices(1);
  carrier.Admit();
  Say(1, Broken{{StatusCode::kUnavailable, "NCCL: remote error"}});
  for (uint32_t rank : {0, 1}) {
    const auto* failed = Last<Failed>(rank);
    ASSERT_NE(failed, nullptr);
    EXPECT_EQ(failed->status.code(), StatusCode::kUnavailable);
    EXPECT_NE(failed->status.message().find("rank 1 cannot sum among themselves any more: NCCL"),
              std::string::npos)
        << failed->status.message();
    const auto* over = std::get_if<GroupOver>(&said[rank][said[rank].size() - 2]);
    ASSERT_NE(over, nullptr) << "each rank aborts";
    EXPECT_EQ(over->why, failed->status);
  }
  EXPECT_TRUE(carrier.IsIdle());
  BeginOnDevices(2);
  carrier.Admit();
  EXPECT_EQ(UsesOf(1), 1u);
}

TEST_F(GroupsOfLocalCarrierTest, WhoLeavesEndsTheGroupsInOrder) {
  Decide();
  BeginOnDevices(1);
  carrier.Admit();
  Say(1, Leaves());
  EXPECT_NE(Last<MayLeave>(1), nullptr);
  const auto* over = std::get_if<GroupOver>(&said[1][said[1].size() - 2]);
  ASSERT_NE(over, nullptr);
  EXPECT_TRUE(over->why.ok());
  carrier.OnLaunchEnd();
  EXPECT_FALSE(carrier.Admit());
  EXPECT_TRUE(carrier.IsIdle());
}

TEST_F(GroupsOfLocalCarrierTest, GroupsThatAreNotReadyInTimeAreTheWindow) {
  BeginOnDevices(1);
  carrier.OnGroupLimit("60 s");
  EXPECT_TRUE(carrier.Admit());
  EXPECT_EQ(UsesOf(1), 1u);
}

}  // namespace
}  // namespace byteps::machine
