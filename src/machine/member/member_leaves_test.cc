// Tests of the carrier of a machine whose ranks leave, or of which ranks elsewhere leave.
#include <gtest/gtest.h>

#include "src/machine/member/member_carrier_for_test.h"

namespace byteps::machine {
namespace {

namespace to_front = protocol::to_front;
namespace to_lane = protocol::to_lane;

TEST_F(MemberCarrierTest, ARankThatLeavesEndsWhatItIsIn) {
  carrier.OnView(View());
  carrier.OnWord(0, BegunWord());
  carrier.OnWord(1, BegunWord());
  carrier.OnWord(1, Leaves());
  EXPECT_EQ(CountAborts(), 1u);
  EXPECT_EQ(ToldTo<MayLeave>(1).size(), 1u);
  EndExchange(Status::Ok());
  ASSERT_EQ(ToldTo<member::Ended>(0).size(), 1u);
  EXPECT_NE(ToldTo<member::Ended>(0)[0].status.message().find("worker 3"), std::string::npos);
}

TEST_F(MemberCarrierTest, ARoundThatARankHasBegunAloneEndsWhenTheRankLeaves) {
  carrier.OnView(View());
  carrier.OnWord(1, BegunWord());
  carrier.OnWord(1, Leaves());
  ASSERT_EQ(CountAborts(), 1u) << "it needs a rank that never brings its part";
  const Status why = std::get<to_lane::Abort>(mails.back()).why;
  EXPECT_NE(why.message().find("worker 3"), std::string::npos) << why.message();
  EndExchange(why);
  EXPECT_TRUE(ToldTo<member::Ended>(1).empty()) << "the rank has gone";
  carrier.OnWord(0, BegunWord());
  ASSERT_EQ(ToldTo<member::Ended>(0).size(), 1u);
  EXPECT_EQ(ToldTo<member::Ended>(0)[0].status, why);
}

// The owners may decide after the other ranks have begun the round.
TEST_F(MemberCarrierTest, ARoundOfARankThatHasLeftNeverOpens) {
  carrier.OnView(View());
  carrier.OnWord(1, BegunWord());
  carrier.OnWord(1, Leaves());
  carrier.OnWord(0, BegunWord());
  ASSERT_EQ(CountAborts(), 1u);
  const Status why = std::get<to_lane::Abort>(mails.back()).why;
  EndExchange(why);
  ASSERT_EQ(ToldTo<member::Ended>(0).size(), 1u);
  EXPECT_EQ(ToldTo<member::Ended>(0)[0].status, why);
  EXPECT_TRUE(ToldTo<member::Ended>(1).empty());
}

TEST_F(MemberCarrierTest, ARoundThatWaitsHereEndsWhenARankElsewhereHasLeft) {
  carrier.OnView(View());
  carrier.OnWord(0, BegunWord());
  EXPECT_EQ(CountAborts(), 0u);
  carrier.OnView(View(2, 1));
  carrier.OnMail(to_front::HandOver{0, 2, {{}}});
  EXPECT_EQ(CountAborts(), 1u);
}

// Nobody holds a tensor any more whose only user has left. The servers have forgotten it, too, so
// they never answer what the carrier has asked them for that user.
TEST_F(MemberCarrierTest, ATensorThatOnlyARankThatHasLeftHasUsedIsForgotten) {
  carrier.OnView(View());
  carrier.OnWord(1, BegunWord());
  carrier.OnWord(1, Leaves());
  ASSERT_EQ(CountAborts(), 1u);
  carrier.OnWord(0, member::Forgotten{{kMemberRound.tensor}});
  carrier.OnWord(0, member::Forgotten{{kMemberRound.tensor}});
  EXPECT_EQ(CountMails<to_lane::Withdraw>(), 1u);
  EXPECT_TRUE(std::holds_alternative<to_lane::Forget>(mails.back())) << "behind the withdrawal";
  EXPECT_TRUE(failures.empty());
  carrier.OnMail(to_front::Released{0, Exchange()->serial, kMemberRound.tensor});
  EXPECT_TRUE(ToldTo<member::Ended>(0).empty());
  EXPECT_TRUE(ToldTo<member::Ended>(1).empty());
}

// The words of a rank may come later than the view without the rank.
TEST_F(MemberCarrierTest, TheViewTellsThatARankHasLeftBeforeTheRankDoes) {
  carrier.OnView(View());
  carrier.OnWord(1, BegunWord());
  carrier.OnView(View(2, 3));
  carrier.OnMail(to_front::HandOver{0, 2, {{}}});
  carrier.OnWord(0, member::Forgotten{{kMemberRound.tensor}});
  EXPECT_EQ(CountMails<to_lane::Withdraw>(), 1u);
  EXPECT_TRUE(failures.empty());
  const protocol::Exchange* const before = Exchange();
  member::Begun late = BegunWord();
  late.key.use = 2;
  carrier.OnWord(1, late);
  carrier.OnWord(1, Leaves());
  EXPECT_EQ(Exchange(), before) << "nobody would answer";
}

TEST_F(MemberCarrierTest, ATensorThatARankUsesCannotBeForgotten) {
  carrier.OnView(View());
  carrier.OnWord(0, BegunWord());
  carrier.OnWord(1, BegunWord());
  carrier.OnWord(1, Leaves());
  carrier.OnWord(0, member::Forgotten{{kMemberRound.tensor}});
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].code(), StatusCode::kProtocol);
}

}  // namespace
}  // namespace byteps::machine
