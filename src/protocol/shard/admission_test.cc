#include "src/protocol/shard/admission.h"

#include <gtest/gtest.h>

#include <string>

#include "src/protocol/shard/room_for_test.h"
#include "src/protocol/shard/shard_mistakes_for_test.h"

namespace byteps::protocol {
namespace {

class AdmissionTest : public testing::Test {
 protected:
  // Asks for the visitor. Its entry in `answers` stays empty until the visitor is answered.
  void Ask(Slot slot, uint64_t incarnation, uint32_t generation) {
    answers.emplace_back();
    size_t at = answers.size() - 1;
    admission.Ask({slot, incarnation, generation,
                   [this, at](const Status& status) { answers[at] = status.code(); }});
  }
  Admission admission;
  std::vector<std::optional<StatusCode>> answers;
};

TEST_F(AdmissionTest, WhoComesFromALaterGenerationWaitsForIt) {
  Ask(0, 100, 1);
  EXPECT_FALSE(answers[0].has_value());
  wire::View view = ViewFor(2, 1);
  admission.OnView(view);
  EXPECT_EQ(answers[0], StatusCode::kOk);
  Ask(0, 100, 2);
  Ask(1, 999, 2);
  ++view.epoch;
  admission.OnView(view);
  EXPECT_FALSE(answers[1].has_value()) << "a later view of the same generation";
  EXPECT_EQ(admission.waiting(), 2u);
  view.generation = 2;
  admission.OnView(view);
  EXPECT_EQ(answers[1], StatusCode::kOk);
  EXPECT_EQ(answers[2], StatusCode::kEvicted) << "another process has its slot";
  Ask(0, 100, 1);
  EXPECT_EQ(answers[3], StatusCode::kUnavailable);
  Ask(7, 107, 2);
  EXPECT_EQ(answers[4], StatusCode::kEvicted);
}

TEST_F(AdmissionTest, OfAContributorOnlyTheCarrierIsLetIn) {
  wire::View view = ViewOfContributors({2, 1});
  std::swap(view.workers[0], view.workers[1]);  // in any order
  admission.OnView(view);
  EXPECT_TRUE(admission.Check(0, 100, 1).ok()) << "rank 0";
  EXPECT_EQ(admission.Check(0, 101, 1).code(), StatusCode::kEvicted) << "rank 1";
  EXPECT_TRUE(admission.Check(1, 102, 1).ok());
}

class WorkerLinksTest : public testing::TestWithParam<ShardMistake> {
 protected:
  WorkerLinksTest() { links.OnView(view, 0); }

  wire::View view = ViewFor(2, 1);
  BufferPool pool;
  KernelArithmetic arithmetic;
  RecordingShardDriver driver;
  MistakenShard mistaken{GetParam(), arithmetic, driver};
  Shard shard{mistaken.OptionsFrom({}), pool, mistaken.arithmetic(), mistaken.driver()};
  std::vector<Slot> closed;
  WorkerLinks links{shard, mistaken.rules(), [this](Slot slot) { closed.push_back(slot); }};
};

TEST_P(WorkerLinksTest, WhoIsOutOfTheViewIsCutOff) {
  EXPECT_TRUE(links.Bind(0, 100, 1));
  EXPECT_TRUE(links.Bind(1, 101, 1));
  Lose(view, 1);
  links.OnView(view, 0);
  bool fenced = GetParam() != ShardMistake::kNoFence;
  EXPECT_EQ(closed, fenced ? std::vector<Slot>{1} : std::vector<Slot>{});
  EXPECT_EQ(links.IsBound(1), !fenced);
  EXPECT_TRUE(links.IsBound(0));
  EXPECT_FALSE(links.Bind(1, 101, 1)) << "its handshake was before the view";
}

INSTANTIATE_TEST_SUITE_P(All, WorkerLinksTest,
                         testing::Values(ShardMistake::kNone, ShardMistake::kNoFence));

class RightWorkerLinksTest : public WorkerLinksTest {};

TEST_P(RightWorkerLinksTest, ANewConnectionTakesThePlaceOfTheOldOne) {
  EXPECT_TRUE(links.Bind(0, 100, 1));
  EXPECT_TRUE(closed.empty());
  wire::DataHeader header = PushOf({7, 0, 1}, 4);
  ASSERT_TRUE(shard.OnDataHeader(0, wire::FrameKind::kPush, header, 4, kStart).ok());
  EXPECT_TRUE(links.Bind(0, 100, 1));
  EXPECT_EQ(closed, (std::vector<Slot>{0}));
  EXPECT_TRUE(shard.OnDataHeader(0, wire::FrameKind::kPush, header, 4, kStart).ok())
      << "the shard forgot what was begun";
  EXPECT_EQ(links.OnClosed(0), 100u);
  EXPECT_EQ(pool.bytes_in_use(), 0u);
  EXPECT_FALSE(links.IsBound(0));
}

TEST_P(RightWorkerLinksTest, AGenerationBeginsWithNewConnections) {
  EXPECT_TRUE(links.Bind(0, 100, 1));
  ++view.epoch;
  view.generation = 2;
  links.OnView(view, 0);
  EXPECT_EQ(closed, (std::vector<Slot>{0}));
  EXPECT_FALSE(links.Bind(0, 100, 1));
  EXPECT_TRUE(links.Bind(0, 100, 2));
}

INSTANTIATE_TEST_SUITE_P(All, RightWorkerLinksTest, testing::Values(ShardMistake::kNone));

}  // namespace
}  // namespace byteps::protocol
