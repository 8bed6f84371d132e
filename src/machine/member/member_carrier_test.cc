#include "src/machine/member/member_carrier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "src/machine/member/member_carrier_for_test.h"

namespace byteps::machine {
namespace {

namespace to_front = protocol::to_front;
namespace to_lane = protocol::to_lane;

// Both ranks have their tensors on devices.
class MemberGroupsTest : public MemberCarrierTest {
 protected:
  MemberGroupsTest() {
    carrier.OnView(View());
    for (uint32_t rank : {0u, 1u}) {
      carrier.OnWord(rank, HasDevice{"gpu"});
      carrier.OnWord(rank, OnDevice());
    }
  }
  static member::Begun OnDevice(uint64_t use = 1) {
    member::Begun begun = BegunWord();
    begun.key.use = use;
    begun.on_device = true;
    return begun;
  }
  void Begin(const member::Begun& word) {
    for (uint32_t rank : {0u, 1u}) carrier.OnWord(rank, word);
  }
  void Meet() {
    carrier.OnPlan({{{{0, 1}, {0.5, 0.5}}}, {{}}, "NCCL 2.28.3", "by groups"});
    for (uint32_t rank : {0u, 1u}) carrier.OnWord(rank, Met{});
  }
};

TEST_F(MemberGroupsTest, ARoundOnDevicesWaitsForTheChoice) {
  EXPECT_EQ(plans, 1);
  EXPECT_EQ(Exchange(), nullptr);
  Meet();
  ASSERT_NE(Exchange(), nullptr);
  EXPECT_EQ(transfers.TakeLaunches().size(), 1u);
}

TEST_F(MemberGroupsTest, ARoundWithHostMemoryDoesNotWait) {
  member::Begun word = OnDevice(2);
  carrier.OnWord(0, word);
  word.on_device = false;
  carrier.OnWord(1, word);
  ASSERT_NE(Exchange(), nullptr);
  EXPECT_EQ(Exchange()->use, 2u);
  EXPECT_TRUE(transfers.TakeLaunches().empty());
}

TEST_F(MemberGroupsTest, WhatGroupsCannotSumGoesThroughTheWindow) {
  Meet();
  EXPECT_EQ(transfers.TakeLaunches().size(), 1u);
  member::Begun word = OnDevice(2);
  word.facts.atomic = true;
  Begin(word);
  word = OnDevice(3);
  word.facts.type = DataType::kInt16;
  Begin(word);
  word = OnDevice(4);
  word.facts.how = Combine::kOverlay;
  Begin(word);
  EXPECT_EQ(Exchange()->use, 4u);
  EXPECT_TRUE(transfers.TakeLaunches().empty());
  word = OnDevice(5);
  word.facts.how = Combine::kAverage;
  Begin(word);
  const auto launches = transfers.TakeLaunches();
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].second.how, Combine::kSum) << "the owner divides";
}

// Later rounds go through the window.
TEST_F(MemberGroupsTest, AGroupThatBreaksEndsTheRoundsUnderWay) {
  Meet();
  EXPECT_EQ(transfers.TakeLaunches().size(), 1u);
  carrier.OnWord(1, Broken{{StatusCode::kUnavailable, "NCCL says so"}});
  EXPECT_EQ(CountAborts(), 1u);
  for (uint32_t rank : {0u, 1u}) {
    ASSERT_EQ(ToldTo<GroupOver>(rank).size(), 1u);
    const Status why = ToldTo<GroupOver>(rank)[0].why;
    EXPECT_NE(why.message().find("rank 3"), std::string::npos) << why.message();
    EXPECT_NE(why.message().find("NCCL says so"), std::string::npos);
  }
  EXPECT_EQ(lines.size(), 2u);
  carrier.OnWord(0, Broken{{StatusCode::kUnavailable, "and again"}});
  EXPECT_EQ(CountAborts(), 1u);
  Begin(OnDevice(2));
  EXPECT_EQ(Exchange()->use, 2u);
  EXPECT_TRUE(transfers.TakeLaunches().empty());
}

TEST_F(MemberGroupsTest, GroupsEndInOrderWhenARankLeaves) {
  Meet();
  carrier.OnWord(1, Leaves());
  for (uint32_t rank : {0u, 1u}) {
    ASSERT_EQ(ToldTo<GroupOver>(rank).size(), 1u);
    EXPECT_TRUE(ToldTo<GroupOver>(rank)[0].why.ok());
  }
  EXPECT_TRUE(transfers.TakeLaunches().empty());
}

TEST_F(MemberGroupsTest, AtTheLimitTheRoundGoesThroughTheWindow) {
  carrier.OnGroupLimit("60 s");
  EXPECT_NE(Exchange(), nullptr);
  EXPECT_TRUE(transfers.TakeLaunches().empty());
}

TEST_F(MemberCarrierTest, ARoundBeginsWithTheLastOfItsRanks) {
  carrier.OnWord(0, BegunWord());
  carrier.OnView(View());
  EXPECT_EQ(Exchange(), nullptr);
  carrier.OnWord(1, BegunWord());
  ASSERT_NE(Exchange(), nullptr);
  EXPECT_EQ(Exchange()->count, 4u);
  EXPECT_EQ(Exchange()->spans->SpansOf(3).push.size(), 16u);
  EndExchange(Status::Ok());
  for (uint32_t rank : {0u, 1u}) {
    ASSERT_EQ(ToldTo<member::Ended>(rank).size(), 1u);
    EXPECT_TRUE(ToldTo<member::Ended>(rank)[0].status.ok());
    EXPECT_EQ(ToldTo<member::Ended>(rank)[0].receipt, std::vector<uint32_t>{2});
  }
}

// Each of these runs of places gives a tree of another shape.
TEST(MemberCarrierOrderTest, EachGenerationHasItsOwnPlacesAndNodes) {
  local::WindowShape shape = MemberShape();
  shape.ranks = 4;
  WindowForTest window{shape};
  BlockTransfers transfers{window.of(0)};
  MemberCarrier carrier{
      4,
      1,
      shape.block_bytes,
      transfers,
      {[](uint32_t, protocol::LaneMail) {}, [](uint32_t, const MemberWords::ToRank&) {},
       [](protocol::FrontMail) {}, [](const Status&) {}}};
  const auto begin = [&](uint32_t generation, uint32_t first_rank, uint32_t sum_group,
                         bool same_bits) {
    auto view = std::make_shared<wire::View>();
    view->epoch = view->generation = view->began = generation;
    view->sum_group = sum_group;
    view->same_bits = same_bits;
    for (uint32_t local_rank = 0; local_rank < 4; ++local_rank) {
      wire::WorkerInfo worker;
      worker.rank = first_rank + local_rank;
      worker.local_rank = local_rank;
      view->workers.push_back(worker);
    }
    view->servers.emplace_back().shard_weights = {1};
    carrier.OnView({view, 0});
  };
  // Another rank of the machine reads the places.
  const auto expect = [&](std::vector<uint32_t> places, kernels::Nodes nodes) {
    kernels::SumTree tree;
    window.of(3).PlanSum(0b1111, tree);
    const kernels::SumTree expected(places);
    EXPECT_TRUE(std::ranges::equal(tree.steps(), expected.steps()));
    EXPECT_EQ(tree.nodes(), nodes);
  };
  begin(1, 4, 1, false);
  expect({4, 5, 6, 7}, kernels::Nodes::kFloat32);
  begin(2, 1, 1, true);
  expect({1, 2, 3, 4}, kernels::Nodes::kOwn);
  begin(3, 0, 3, false);
  expect({0, 1, 2, 4}, kernels::Nodes::kFloat32);
}

TEST_F(MemberCarrierTest, ARankWithoutInputAsksForItsError) {
  carrier.OnView(View());
  member::Begun begun = BegunWord();
  begun.no_input = {StatusCode::kUnavailable, "rank 2 has no input"};
  carrier.OnWord(0, BegunWord());
  carrier.OnWord(1, begun);
  ASSERT_NE(Exchange(), nullptr);
  ASSERT_EQ(CountAborts(), 1u);
  EXPECT_EQ(std::get<to_lane::Abort>(mails.back()).why, begun.no_input);
  EndExchange(begun.no_input);
  for (uint32_t rank : {0u, 1u}) {
    ASSERT_EQ(ToldTo<member::Ended>(rank).size(), 1u);
    EXPECT_EQ(ToldTo<member::Ended>(rank)[0].status, begun.no_input);
  }
}

TEST_F(MemberCarrierTest, AnErrorOpensTheRoundAndIsKeptForWhoComesLater) {
  carrier.OnView(View());
  carrier.OnWord(0, BegunWord());
  carrier.OnWord(0, Abort{kMemberRound, Status(StatusCode::kDeadlineExceeded, "too late")});
  ASSERT_NE(Exchange(), nullptr);
  ASSERT_EQ(CountAborts(), 1u);
  EXPECT_NE(std::get<to_lane::Abort>(mails.back()).why.message().find("rank 3"), std::string::npos);
  EndExchange({StatusCode::kDeadlineExceeded, "too late"});
  EXPECT_EQ(ToldTo<member::Ended>(0).size(), 1u);
  EXPECT_TRUE(ToldTo<member::Ended>(1).empty());
  carrier.OnWord(1, BegunWord());
  ASSERT_EQ(ToldTo<member::Ended>(1).size(), 1u);
  EXPECT_EQ(ToldTo<member::Ended>(1)[0].status.code(), StatusCode::kDeadlineExceeded);
}

TEST_F(MemberCarrierTest, RanksThatHaveJoinedAreNotWaitedForAndTheMachineJoinsWithTheLast) {
  carrier.OnView(View());
  carrier.OnWord(0, BegunWord());
  mails.clear();
  carrier.OnWord(1, member::Joined{4});
  ASSERT_NE(Exchange(), nullptr);
  ASSERT_EQ(mails.size(), 2u);
  EXPECT_EQ(std::get<to_lane::Joined>(mails[1]).ranks.List(), (std::vector<Slot>{3}))
      << "the machine has not joined as a whole";
  EndExchange(Status::Ok());
  EXPECT_TRUE(ToldTo<member::Ended>(1).empty());
  carrier.OnWord(0, member::Joined{4});
  ASSERT_TRUE(std::holds_alternative<to_lane::Joined>(mails.back()));
  EXPECT_EQ(std::get<to_lane::Joined>(mails.back()).number, 4u);
  EXPECT_TRUE(std::get<to_lane::Joined>(mails.back()).ranks.empty()) << "all of it";
}

TEST_F(MemberCarrierTest, WhatTheRanksDisagreeAboutIsWithdrawnOnce) {
  carrier.OnView(View());
  carrier.OnWord(0, BegunWord());
  carrier.OnWord(1, BegunWord());
  carrier.OnWord(1, member::Retired{{kMemberRound.tensor}});
  carrier.OnWord(0, member::Retired{{kMemberRound.tensor}});
  EXPECT_EQ(CountMails<to_lane::Withdraw>(), 1u);
  EXPECT_EQ(CountMails<to_lane::Retire>(), 1u);
  carrier.OnMail(to_front::Released{0, Exchange()->serial, kMemberRound.tensor});
  EXPECT_TRUE(told.empty());
}

TEST_F(MemberCarrierTest, ItsRanksAreToldThatNobodyCarriesAnyMore) {
  carrier.OnView(View());
  carrier.Close({StatusCode::kPeerLost, "worker 0 was lost"});
  ASSERT_EQ(ToldTo<JobOver>(1).size(), 1u);
  EXPECT_EQ(ToldTo<JobOver>(1)[0].status.message(), "worker 0 was lost");
}

// The shard has named all ranks of this machine.
TEST_F(MemberCarrierTest, AnErrorOfAnotherMachineNamesTheRankThatHasNotComeHere) {
  carrier.OnView(View());
  carrier.OnWord(0, BegunWord());
  carrier.OnWord(0, Abort{kMemberRound, {StatusCode::kDeadlineExceeded, "rank 2 has waited"}});
  const Status theirs(StatusCode::kDeadlineExceeded, "rank 0 has waited; nothing from rank (2, 3)");
  EndExchange(theirs);
  ASSERT_EQ(ToldTo<member::Ended>(0).size(), 1u);
  EXPECT_EQ(ToldTo<member::Ended>(0)[0].status.message(),
            theirs.message() + "; of this machine rank 3 has not begun it");
}

TEST_F(MemberCarrierTest, AnErrorThatNamesTheRankThatHasNotComeDoesSoOnce) {
  carrier.OnView(View());
  carrier.OnWord(0, BegunWord());
  carrier.OnWord(0, Abort{kMemberRound, {StatusCode::kDeadlineExceeded, "rank 2 has waited"}});
  const Status own(StatusCode::kDeadlineExceeded,
                   "rank 2 has waited; the machine of rank 2 has nothing from rank 3");
  EndExchange(own);
  ASSERT_EQ(ToldTo<member::Ended>(0).size(), 1u);
  EXPECT_EQ(ToldTo<member::Ended>(0)[0].status, own);
}

// The decoder has no view, and sees one word at a time.
TEST_F(MemberCarrierTest, AWordThatDoesNotFitTheJobOrTheWordsOfOthersEndsTheMachine) {
  carrier.OnView(View());
  struct Case {
    const char* what;
    std::function<void(member::Begun&)> change;
  };
  const std::vector<Case> cases = {
      {"a home that is no shard", [](member::Begun& word) { word.facts.homes[3] = 1; }},
      {"more pieces than homes", [](member::Begun& word) { word.facts.pieces[0].count = 4; }},
      {"a part before what the machine pushes",
       [](member::Begun& word) { word.facts.pieces[0] = {3, 1024, 512, 512, 0, 1024}; }},
      {"a part behind what the machine pushes",
       [](member::Begun& word) { word.facts.pieces[0] = {3, 1024, 0, 512, 0, 1024}; }},
      {"a part of no piece", [](member::Begun& word) { word.facts.pieces.clear(); }},
  };
  uint64_t use = kMemberRound.use;
  for (const Case& one : cases) {
    failures.clear();
    member::Begun word = BegunWord();
    word.key.use = ++use;
    one.change(word);
    carrier.OnWord(0, word);
    ASSERT_EQ(failures.size(), 1u) << one.what;
    EXPECT_EQ(failures[0].code(), StatusCode::kProtocol);
    EXPECT_NE(failures[0].message().find("'w'"), std::string::npos) << failures[0].message();
  }
  failures.clear();
  // The first rank says what the machine pushes; the others bring parts of that.
  carrier.OnWord(0, BegunWord());
  member::Begun other = BegunWord();
  other.facts.pieces[0] = {3, 2048, 1024, 1024, 0, 2048};
  other.push_offset = 1024;
  carrier.OnWord(1, other);
  EXPECT_EQ(failures.size(), 1u);
  EXPECT_EQ(Exchange(), nullptr);
}

// Lanes and BlockTransfers take these spans without a check.
TEST_F(MemberCarrierTest, WhateverBytesARankChangesPiecesLieInTheirBlocks) {
  constexpr WordLimits kLimits = {.ranks = kMemberRanks, .piece_bytes_max = 1024};
  constexpr size_t kSeeds = 3000;
  carrier.OnView(View());
  std::mt19937 random(5);
  size_t begun = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    member::Begun word = BegunWord(0b11, seed % 2 == 0 ? Combine::kSum : Combine::kOverlay);
    word.key.use = seed;
    std::vector<std::byte> packet = EncodeWord(MemberWords::ToCarrier(word));
    for (uint32_t i = random() % 3; i < 3; ++i) {
      const size_t at = 1 + random() % (packet.size() - 1);  // byte 0 is the kind
      packet[at] = static_cast<std::byte>(random() >> random() % 32);
    }
    auto changed = DecodeWord<MemberWords::ToCarrier>(packet, kLimits);
    mails.clear();
    // Any rank may be the first; the facts of the first rank count.
    const uint32_t first = random() % 2;
    for (uint32_t rank : {first, 1 - first}) {
      if (rank == 0) carrier.OnWord(rank, word);
      if (rank == 1 && changed.ok()) carrier.OnWord(rank, changed.value());
    }
    const protocol::Exchange* exchange = Exchange();
    if (exchange == nullptr) continue;
    ++begun;
    ASSERT_LE(exchange->end(), exchange->homes->size());
    for (uint32_t number = exchange->first_piece; number < exchange->end(); ++number) {
      EXPECT_EQ((*exchange->homes)[number], 0u) << "the only shard";
      const protocol::Spans spans = exchange->spans->SpansOf(number);
      ASSERT_LE(spans.piece_bytes, kLimits.piece_bytes_max);
      ASSERT_LE(spans.push_offset + spans.push.size(), spans.piece_bytes);
      ASSERT_LE(spans.want_offset + spans.want.size(), spans.piece_bytes);
    }
  }
  EXPECT_GT(begun, kSeeds / 10);
  EXPECT_GT(failures.size(), 0u);
}

}  // namespace
}  // namespace byteps::machine
