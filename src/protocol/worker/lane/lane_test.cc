#include "src/protocol/worker/lane/lane.h"

#include <gtest/gtest.h>

#include "src/protocol/worker/lane/lane_for_test.h"
#include "src/protocol/worker/worker_mistakes_for_test.h"

namespace byteps::protocol {
namespace {

// Two lanes with two shards; each shard has its own server. The test carries the lanes' mail.
class LaneTest : public LaneForTest {
 protected:
  LaneTest() : LaneForTest(0, 2, 2) {
    view.servers.push_back(view.servers[0]);
    for (uint32_t i : {0U, 1U}) {
      view.servers[i].index = view.servers[i].first_shard = i;
      view.servers[i].shard_weights = {1};
    }
  }

  void Start() {
    for (uint32_t i : {0U, 1U}) {
      options.lane = i;
      lanes[i] = std::make_unique<Lane>(options, pool, arithmetic, drivers[i]);
      lanes[i]->OnMail(ViewMail());
      lanes[i]->OnShardUp(i);
    }
  }
  to_lane::View ViewMail() const { return {std::make_shared<const wire::View>(view), 0}; }
  void Begin() {
    for (auto& lane : lanes) lane->OnMail(to_lane::Begin{&exchange});
  }
  // Server 1 dies and both lanes learn of it. Returns the pieces that lane 1 hands over to lane 0.
  std::vector<MovedPiece> LoseServer1() {
    lanes[1]->OnShardDown(1);
    view.servers[1].alive = false;
    view.servers[1].since = ++view.epoch;
    for (auto& lane : lanes) lane->OnMail(ViewMail());
    return drivers[1].Told<to_front::HandOver>().back().pieces[0];
  }
  void TakeOver(std::vector<MovedPiece> pieces) {
    lanes[1]->OnMail(to_lane::TakeOver{view.epoch, {}});
    lanes[0]->OnMail(to_lane::TakeOver{view.epoch, std::move(pieces)});
  }
  // Answers the last push of the piece by this lane.
  void Answer(uint32_t lane, uint32_t number, uint64_t count) {
    wire::DataHeader header;
    for (const auto& push : drivers[lane].pushes) {
      if (push.header.ref.piece == number) header = push.header;
    }
    header.count = count;
    header.unstable = 1;
    auto place = lanes[lane]->OnAnswerHeader(lane, header, 4);
    ASSERT_TRUE(place.ok()) << place.status().message();
    std::ranges::fill(place.value(), std::byte{'y'});
    lanes[lane]->OnAnswer(lane, Time());
  }
  uint32_t PiecesDone(uint32_t lane) const {
    uint32_t pieces = 0;
    for (const auto& part : drivers[lane].Told<to_front::PartDone>()) pieces += part.pieces;
    return pieces;
  }

  RecordingLaneDriver drivers[2];
  std::unique_ptr<Lane> lanes[2];
};

TEST_F(LaneTest, EachLanePushesToItsOwnShardsAndSaysWhenItsPartHasEnded) {
  Start();
  Begin();
  ASSERT_EQ(drivers[0].pushes.size(), 1U);
  ASSERT_EQ(drivers[1].pushes.size(), 1U);
  EXPECT_EQ(drivers[1].pushes[0].to, 1U);
  Answer(1, 1, 1);
  EXPECT_EQ(PiecesDone(0), 0U);
  EXPECT_EQ(PiecesDone(1), 1U);
  EXPECT_EQ(lanes[1]->bytes_in_flight(), 0U);
}

// Records the moments of pieces.
class RecordingWatch final : public PieceWatch {
 public:
  void On(const PieceEvent& event) override {
    events.push_back(event);
    names.emplace_back(event.name);
  }
  std::vector<PieceMoment> MomentsOf(uint32_t number) const {
    std::vector<PieceMoment> moments;
    for (const PieceEvent& event : events) {
      if (event.ref.piece == number) moments.push_back(event.moment);
    }
    return moments;
  }
  std::vector<PieceEvent> events;
  std::vector<std::string> names;
};

TEST_F(LaneTest, AWatchHearsOfEachPieceOnItsWay) {
  using enum PieceMoment;
  RecordingWatch watch;
  options.watch = &watch;
  Start();
  Begin();
  EXPECT_EQ(watch.MomentsOf(1), (std::vector{kQueued, kSetOut, kPushed}));
  Answer(1, 1, 1);
  EXPECT_EQ(watch.MomentsOf(1), (std::vector{kQueued, kSetOut, kPushed, kAnswerBegins, kAnswered}));
  EXPECT_EQ(watch.MomentsOf(0).size(), 3U) << "it has no answer";
  const PieceEvent& last = watch.events.back();
  EXPECT_EQ(last.ref, (wire::PieceRef{7, 1, wire::RoundOf(1, 0)}));
  EXPECT_EQ(last.shard, 1U);
  EXPECT_EQ(last.bytes, SpansForTest::kPieceBytes);
  EXPECT_EQ(watch.names.back(), "w");
}

TEST_F(LaneTest, AWatchHearsThatAPieceHasNoCreditYet) {
  using enum PieceMoment;
  RecordingWatch watch;
  options.watch = &watch;
  options.credit.fixed_bytes = 1;  // one piece at a time
  options.lanes = 1;
  lanes[0] = std::make_unique<Lane>(options, pool, arithmetic, drivers[0]);
  lanes[0]->OnMail(ViewMail());
  for (ShardId shard : {0U, 1U}) lanes[0]->OnShardUp(shard);
  lanes[0]->OnMail(to_lane::Begin{&exchange});
  EXPECT_EQ(watch.MomentsOf(0), (std::vector{kQueued, kSetOut, kPushed}));
  EXPECT_EQ(watch.MomentsOf(1), (std::vector{kQueued}));
  Answer(0, 0, 1);
  EXPECT_EQ(watch.MomentsOf(1), (std::vector{kQueued, kSetOut, kPushed}));
}

TEST_F(LaneTest, APieceThatMovesIsPushedAndAnsweredInItsNewLane) {
  Start();
  Begin();
  std::vector<MovedPiece> moved = LoseServer1();
  ASSERT_EQ(moved.size(), 1U);
  EXPECT_EQ(drivers[0].pushes.size(), 1U) << "not before it is there";
  TakeOver(std::move(moved));
  ASSERT_EQ(drivers[0].pushes.size(), 2U);
  EXPECT_EQ(drivers[0].pushes[1].header.ref.piece, 1U);
  Answer(0, 0, 1);
  Answer(0, 1, 2);
  EXPECT_EQ(PiecesDone(0), 2U);
  EXPECT_EQ(PiecesDone(1), 0U);
}

TEST_F(LaneTest, ToKeepAPieceThatMovesIsAMistakeThatShows) {
  options.rules = &LaneRulesWith(WorkerMistake::kAnsweredInOldLane);
  Start();
  Begin();
  EXPECT_TRUE(LoseServer1().empty());
}

// The mail was sent to the lane that had the piece, and arrives when the piece has gone.
TEST_F(LaneTest, MailOfAPieceThatComesAfterItHasMovedChangesNothing) {
  Start();
  Begin();
  std::vector<MovedPiece> moved = LoseServer1();
  const size_t sent = drivers[1].pushes.size();
  const PieceTicket ticket{7, 1, wire::RoundOf(1, 0)};
  lanes[1]->OnFrame(1, wire::Want{{{7, 1, wire::RoundOf(1, 0)}}});
  lanes[1]->Resume(ticket, StageVerdict::kDone, {});
  lanes[1]->OnMail(to_lane::Abort{7, 5, {StatusCode::kDeadlineExceeded, "too late"}});
  lanes[1]->OnMail(to_lane::TakeOver{view.epoch - 1, moved});  // from a view before
  EXPECT_EQ(drivers[1].pushes.size(), sent);
  EXPECT_TRUE(drivers[1].aborts.empty());
  EXPECT_EQ(PiecesDone(1), 0U);
  EXPECT_EQ(lanes[1]->bytes_in_flight(), 0U);
  TakeOver(std::move(moved));
  EXPECT_EQ(drivers[0].pushes.size(), 2U) << "and where it went it goes on";
}

// The front has withdrawn the exchange while one of its pieces was between the lanes.
TEST_F(LaneTest, APieceThatComesWithoutItsExchangeIsNotPushed) {
  Start();
  Begin();
  std::vector<MovedPiece> moved = LoseServer1();
  for (auto& lane : lanes) lane->OnMail(to_lane::Withdraw{&exchange});
  for (const RecordingLaneDriver& one : drivers) {
    EXPECT_EQ(one.Told<to_front::Released>().size(), 1U);
  }
  moved.at(0).exchange = nullptr;
  TakeOver(std::move(moved));
  EXPECT_EQ(drivers[0].pushes.size(), 1U);
  EXPECT_EQ(lanes[0]->bytes_in_flight(), 0U);
}

// The lane that has the piece now keeps the verdict and tells it.
TEST_F(LaneTest, AVerdictThatOthersMayLackMovesAndIsToldToTheNewOwner) {
  Start();
  Begin();
  Answer(1, 1, 1);
  EXPECT_TRUE(lanes[1]->HoldsUnstable());
  std::vector<MovedPiece> moved = LoseServer1();
  ASSERT_EQ(moved.size(), 1U);
  EXPECT_EQ(moved[0].copy.size(), 4U);
  EXPECT_TRUE(lanes[1]->HoldsUnstable()) << "until it knows what comes to it";
  TakeOver(std::move(moved));
  EXPECT_FALSE(lanes[1]->HoldsUnstable());
  EXPECT_TRUE(lanes[0]->HoldsUnstable());
  ASSERT_EQ(drivers[0].verdicts.size(), 1U);
  EXPECT_EQ(drivers[0].verdicts[0].bytes.substr(8), "yyyy");
}

TEST_F(LaneTest, ALaneHasSettledWhenNobodyDependsOnWhatItHolds) {
  Start();
  Begin();
  lanes[0]->OnMail(to_lane::Settle{3});
  ASSERT_EQ(drivers[0].Told<to_front::Settled>().size(), 1U);
  EXPECT_EQ(drivers[0].Told<to_front::Settled>()[0].question, 3U);
  Answer(0, 0, 1);
  lanes[0]->OnMail(to_lane::Settle{4});
  EXPECT_EQ(drivers[0].Told<to_front::Settled>().size(), 1U);
  lanes[0]->OnFrame(0, wire::Stable{1, view.epoch});
  EXPECT_EQ(drivers[0].Told<to_front::Settled>().back().question, 4U);
  EXPECT_EQ(drivers[0].Told<to_front::Settled>().size(), 2U) << "once for each question";
}

TEST_F(LaneTest, AnAcknowledgementGoesAloneWhenNoPushHasCarriedIt) {
  Start();
  Begin();
  EXPECT_FALSE(lanes[0]->NextTick().has_value());
  Answer(0, 0, 1);
  ASSERT_EQ(lanes[0]->NextTick(), Time() + options.acknowledge_after);
  lanes[0]->OnTick(*lanes[0]->NextTick());
  EXPECT_EQ(drivers[0].acks, (std::vector<std::pair<ShardId, uint64_t>>{{0, 1}}));
  EXPECT_FALSE(lanes[0]->NextTick().has_value());
}

TEST_F(LaneTest, AnAnswerOfAnotherGenerationOrWithoutAConnectionIsRefused) {
  Start();
  wire::DataHeader header;
  header.generation = 2;
  EXPECT_EQ(lanes[0]->OnAnswerHeader(0, header, 4).status().code(), StatusCode::kProtocol);
  header.generation = 1;
  EXPECT_TRUE(lanes[0]->OnAnswerHeader(0, header, 4).ok());
  lanes[0]->OnAnswer(0, Time());
  lanes[0]->OnShardDown(0);
  EXPECT_EQ(lanes[0]->OnAnswerHeader(0, header, 4).status().code(), StatusCode::kProtocol);
}

TEST_F(LaneTest, OfWhatIsRetiredAVerdictIsKeptUntilAllHaveIt) {
  Start();
  Begin();
  Answer(0, 0, 1);
  lanes[0]->OnMail(to_lane::Withdraw{&exchange});
  lanes[0]->OnMail(to_lane::Retire{{7}});
  EXPECT_TRUE(lanes[0]->HoldsUnstable());
  lanes[0]->OnFrame(0, wire::Stable{1, 1});
  EXPECT_FALSE(lanes[0]->HoldsUnstable());
  EXPECT_EQ(pool.bytes_in_use(), 0U);
}

}  // namespace
}  // namespace byteps::protocol
