#include "src/protocol/control/names/name_desk.h"

#include "src/protocol/control/parts_for_test.h"

namespace byteps::protocol {
namespace {

class NameDeskTest : public PartsTest {
 protected:
  NameDeskTest() { BringIntoForce(JobView(1, 2, 1)); }

  static wire::Declare Declaration(int64_t elements) {
    return {"x", 0, {Op::kSum, DataType::kFloat32, 0, {elements}}, 1};
  }
  using Op = wire::Op;
};

TEST_F(NameDeskTest, AnswersGoToWhomTheyConcern) {
  names.OnDeclare(*roster.Find(1), Declaration(3));
  EXPECT_EQ(To<wire::Declared>(1).size(), 1u);
  EXPECT_TRUE(To<wire::Declared>(2).empty());
  names.OnDeclare(*roster.Find(2), Declaration(4));
  for (ConnectionId id : {1, 2, 101}) EXPECT_EQ(To<wire::DeclareFailed>(id).size(), 1u) << id;
  driver.sent.clear();
  names.BringUpToDate(*roster.Find(101));
  EXPECT_EQ(To<wire::DeclareFailed>(101).size(), 1u) << "it may have missed it";
}

TEST_F(NameDeskTest, AfterARestartEveryWorkerIsHeardBeforeNamesGoOn) {
  names.Rebuild(views.in_force(), 1);
  names.Begin(views.in_force());
  wire::Report report;
  report.self = JoinOf(Role::kWorker, 1);
  report.committed = views.in_force();
  wire::Declared old{"x", 0, 0, 5, plan::PieceAssigner::Create({{1}}, 4096)->State()};
  names.OnKnown(1, {{{old, Declaration(3).spec}}, {}});
  names.OnReport(1, report, true);
  names.TakeKnown(1, views.in_force());
  EXPECT_TRUE(names.IsRebuilding()) << "worker 2 has not told";
  names.TakeKnown(2, views.in_force());
  EXPECT_FALSE(names.IsRebuilding());
  ASSERT_EQ(To<wire::StillKnown>(101).size(), 1u);
  EXPECT_EQ(To<wire::StillKnown>(101)[0].tensors, std::vector<TensorId>{5});
  names.OnDeclare(*roster.Find(2), Declaration(3));
  ASSERT_EQ(To<wire::Declared>(2).size(), 1u);
  EXPECT_EQ(To<wire::Declared>(2)[0].tensor, 5u) << "what worker 1 knew";
}

TEST_F(NameDeskTest, WhoIsGoneIsNotWaitedFor) {
  names.Rebuild(views.in_force(), 1);
  names.ForgetIf([](uint64_t who) { return who == 1; });
  EXPECT_TRUE(names.IsRebuilding());
  names.ForgetIf([](uint64_t who) { return who == 2; });
  EXPECT_FALSE(names.IsRebuilding());
}

TEST_F(NameDeskTest, ACircleIsJudgedAWhileAfterItsFirstSign) {
  names.OnDeclare(*roster.Find(1), Declaration(3));
  wire::Declare other = Declaration(4);
  other.name = "y";
  names.OnDeclare(*roster.Find(2), other);
  wire::NamedUse in_x{"x", {0, 0, 1, 1}}, in_y{"y", {0, 0, 1, 2}};
  names.OnOverdue(*roster.Find(1), {{{"x", in_x.use, 1, {}, true}}, {}});
  names.OnOverdue(*roster.Find(2), {{{"y", in_y.use, 2, {}, true}}, {}});
  ASSERT_EQ(To<wire::Unbegun>(1).size(), 1u);
  names.OnUnbegun(*roster.Find(1), {in_x, {in_y}});
  names.OnUnbegun(*roster.Find(2), {in_y, {in_x}});
  ASSERT_EQ(names.NextDue(), now + options.judge_after);
  names.DoWhatIsDue();
  EXPECT_TRUE(To<wire::DeclareFailed>(1).empty());
  Pass(options.judge_after);
  names.DoWhatIsDue();
  EXPECT_EQ(To<wire::DeclareFailed>(1).size(), 1u) << "in x, which it has declared";
  EXPECT_FALSE(names.NextDue().has_value());
}

}  // namespace
}  // namespace byteps::protocol
