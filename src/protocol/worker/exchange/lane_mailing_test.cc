#include "src/protocol/worker/exchange/lane_mailing.h"

#include <gtest/gtest.h>

namespace byteps::protocol {
namespace {

class LaneMailingTest : public testing::Test {
 protected:
  LaneMailingTest() {
    mailing.BeginGeneration(ViewOf(1));
    sent.clear();
  }

  static to_lane::View ViewOf(uint64_t epoch) {
    auto view = std::make_shared<wire::View>();
    view->epoch = epoch;
    return {view, 0};
  }

  // Returns true if it was the last hand-over. `pieces` go to lane 1.
  bool HandOver(uint32_t lane, uint64_t epoch, std::vector<MovedPiece> pieces = {}) {
    return mailing.OnHandOver({lane, epoch, {{}, std::move(pieces)}});
  }

  MovedPiece PieceOf(TensorId tensor) {
    MovedPiece moved;
    moved.tensor.id = tensor;
    moved.exchange = &exchange;
    return moved;
  }

  template <typename Mail>
  std::vector<Mail> To(uint32_t lane) const {
    std::vector<Mail> found;
    for (const auto& [to, mail] : sent) {
      const Mail* one = std::get_if<Mail>(&mail);
      if (to == lane && one != nullptr) found.push_back(*one);
    }
    return found;
  }

  Exchange exchange;
  std::vector<std::pair<uint32_t, LaneMail>> sent;
  LaneMailing mailing{
      2, [this](uint32_t lane, LaneMail mail) { sent.emplace_back(lane, std::move(mail)); }};
};

TEST_F(LaneMailingTest, WithoutAMoveEveryLaneIsToldAtOnce) {
  mailing.Begin({&exchange});
  mailing.Withdraw(exchange);
  for (uint32_t lane : {0U, 1U}) {
    EXPECT_EQ(To<to_lane::Begin>(lane).size(), 1U);
    EXPECT_EQ(To<to_lane::Withdraw>(lane).size(), 1U);
  }
  EXPECT_FALSE(HandOver(0, 1)) << "nothing moves";
}

TEST_F(LaneMailingTest, LanesTakeOverWhenAllHaveHandedOverAndThenTheRestFollows) {
  mailing.ChangeView(ViewOf(2));
  mailing.Begin({&exchange});
  mailing.Abort({7, 1, {StatusCode::kDeadlineExceeded, "too late"}});
  EXPECT_TRUE(To<to_lane::Begin>(0).empty());
  EXPECT_FALSE(HandOver(0, 2, {PieceOf(7)}));
  EXPECT_TRUE(HandOver(1, 2));
  mailing.FinishMove();
  EXPECT_TRUE(To<to_lane::TakeOver>(0)[0].pieces.empty());
  ASSERT_EQ(To<to_lane::TakeOver>(1)[0].pieces.size(), 1U);
  EXPECT_EQ(To<to_lane::TakeOver>(1)[0].epoch, 2U);
  EXPECT_EQ(To<to_lane::TakeOver>(1)[0].pieces[0].exchange, &exchange);
  ASSERT_EQ(sent.size(), 2 + 2 + 2 + 2U);
  EXPECT_TRUE(std::holds_alternative<to_lane::TakeOver>(sent[3].second));
  EXPECT_TRUE(std::holds_alternative<to_lane::Begin>(sent[4].second)) << "behind it";
  EXPECT_EQ(To<to_lane::Abort>(1).size(), 1U);
}

// The mail is late: the piece has left the lane that gets the mail, and has not arrived at the
// other lane.
TEST_F(LaneMailingTest, WhatIsWithdrawnWhileItMovesArrivesWithoutItsExchange) {
  mailing.ChangeView(ViewOf(2));
  HandOver(0, 2, {PieceOf(7)});
  mailing.Withdraw(exchange);
  EXPECT_EQ(To<to_lane::Withdraw>(1).size(), 1U) << "at once";
  HandOver(1, 2);
  mailing.FinishMove();
  ASSERT_EQ(To<to_lane::TakeOver>(1)[0].pieces.size(), 1U) << "its verdict is still held";
  EXPECT_EQ(To<to_lane::TakeOver>(1)[0].pieces[0].exchange, nullptr);
}

// The retired piece may have a verdict that others lack. The lane that gets the piece decides about
// that.
TEST_F(LaneMailingTest, WhatIsRetiredWhileItMovesIsRetiredAgainWhereItArrives) {
  mailing.ChangeView(ViewOf(2));
  HandOver(0, 2, {PieceOf(7)});
  mailing.Retire({7});
  EXPECT_EQ(To<to_lane::Retire>(1).size(), 1U) << "at once";
  HandOver(1, 2);
  mailing.FinishMove();
  ASSERT_EQ(To<to_lane::TakeOver>(1)[0].pieces.size(), 1U);
  EXPECT_EQ(To<to_lane::Retire>(1).size(), 2U);
  EXPECT_TRUE(std::holds_alternative<to_lane::Retire>(sent.back().second)) << "behind it";
  mailing.Retire({});
  EXPECT_EQ(To<to_lane::Retire>(1).size(), 2U) << "nothing is no mail";
}

TEST_F(LaneMailingTest, WhatIsForgottenWhileItMovesIsForgottenAgainWhereItArrives) {
  mailing.ChangeView(ViewOf(2));
  HandOver(0, 2, {PieceOf(7)});
  mailing.Forget({7});
  EXPECT_EQ(To<to_lane::Forget>(1).size(), 1U) << "at once";
  HandOver(1, 2);
  mailing.FinishMove();
  EXPECT_EQ(To<to_lane::Forget>(1).size(), 2U);
  EXPECT_TRUE(std::holds_alternative<to_lane::Forget>(sent.back().second)) << "behind it";
  mailing.Forget({});
  EXPECT_EQ(To<to_lane::Forget>(1).size(), 2U) << "nothing is no mail";
}

TEST_F(LaneMailingTest, WhatIsWithdrawnBeforeItBeganNeverBegins) {
  mailing.ChangeView(ViewOf(2));
  mailing.Begin({&exchange});
  mailing.Repeat({&exchange, 1, nullptr});
  mailing.Withdraw(exchange);
  HandOver(0, 2);
  HandOver(1, 2);
  mailing.FinishMove();
  EXPECT_TRUE(To<to_lane::Begin>(0).empty());
  EXPECT_TRUE(To<to_lane::Repeat>(0).empty());
  EXPECT_EQ(To<to_lane::Withdraw>(0).size(), 1U);
}

TEST_F(LaneMailingTest, AViewDuringAMoveMovesAfterIt) {
  mailing.ChangeView(ViewOf(2));
  mailing.Begin({&exchange});
  mailing.ChangeView(ViewOf(3));
  mailing.Abort({7, 1, {StatusCode::kDeadlineExceeded, "late"}});
  EXPECT_EQ(To<to_lane::View>(0).size(), 1U);
  HandOver(0, 2);
  EXPECT_TRUE(HandOver(1, 2));
  mailing.FinishMove();
  EXPECT_EQ(To<to_lane::Begin>(0).size(), 1U);
  ASSERT_EQ(To<to_lane::View>(0).size(), 2U);
  EXPECT_TRUE(To<to_lane::Abort>(0).empty()) << "it came behind the view";
  EXPECT_FALSE(HandOver(0, 2)) << "of the move before";
  EXPECT_FALSE(HandOver(0, 3));
  EXPECT_TRUE(HandOver(1, 3));
  mailing.FinishMove();
  EXPECT_EQ(To<to_lane::Abort>(0).size(), 1U);
}

TEST_F(LaneMailingTest, AGenerationVoidsWhatMovesAndWhatWaits) {
  mailing.ChangeView(ViewOf(2));
  mailing.Begin({&exchange});
  mailing.BeginGeneration(ViewOf(3));
  EXPECT_EQ(To<to_lane::View>(1).size(), 2U);
  EXPECT_FALSE(HandOver(0, 2));
  EXPECT_FALSE(HandOver(1, 2));
  EXPECT_TRUE(To<to_lane::Begin>(1).empty());
  mailing.Begin({&exchange});
  EXPECT_EQ(To<to_lane::Begin>(1).size(), 1U);
}

}  // namespace
}  // namespace byteps::protocol
