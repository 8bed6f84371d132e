#include "src/session/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "src/operations/row.h"

namespace byteps::session {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AdmissionTest : public ::testing::Test {
 protected:
  protocol::Operation Of(const std::string& name, wire::Op op = wire::Op::kSum) {
    protocol::Operation operation;
    operation.name = name;
    operation.spec.op = op;
    if (!operations::RowOf(op).has_tensor) return operation;
    operation.spec.shape = {2};
    operation.input = memory_.data();
    operation.output = memory_.data();
    return operation;
  }
  // Returns ok if the operation is admitted; then `last_` has its name.
  Status Admit(protocol::Operation operation) {
    auto open = admission_.Admit(operation);
    if (!open.ok()) return open.status();
    last_ = open.value();
    splits_ = operation.splits;
    return Status::Ok();
  }
  void ExpectRefused(protocol::Operation operation, StatusCode code, const char* text) {
    Status refused = Admit(std::move(operation));
    EXPECT_EQ(refused.code(), code);
    EXPECT_THAT(refused.message(), HasSubstr(text));
  }

  Admission admission_{1, {0, 1, 4}};
  std::array<std::byte, 64> memory_{};
  const Admission::Open* last_ = nullptr;
  std::vector<uint64_t> splits_;
};

TEST_F(AdmissionTest, ANameIsTakenUntilItsOperationIsClosed) {
  ASSERT_TRUE(Admit(Of("w", wire::Op::kMax)).ok());
  const Admission::Open* first = last_;
  ASSERT_TRUE(Admit(Of("v")).ok());
  ExpectRefused(Of("w"), StatusCode::kDuplicateName, "'w' is already in flight, with max of float");
  admission_.Close(first, Status(StatusCode::kPeerLost, ""));
  EXPECT_TRUE(Admit(Of("w")).ok());
}

TEST_F(AdmissionTest, ArgumentsAreLookedAt) {
  protocol::Operation operation = Of("w");
  operation.spec.shape = {-1};
  ExpectRefused(operation, StatusCode::kInvalidArgument, "negative");
  operation = Of("w");
  operation.input = nullptr;
  ExpectRefused(operation, StatusCode::kInvalidArgument, "no memory");
  operation = Of("w");
  operation.output = memory_.data() + 4;
  ExpectRefused(operation, StatusCode::kInvalidArgument, "overlap");
  EXPECT_TRUE(Admit(Of("w")).ok()) << "the refused ones have left nothing";
}

TEST_F(AdmissionTest, TellsHowMuchOutputAnOperationWrites) {
  EXPECT_EQ(admission_.OutputBytes(Of("w")), 8u);
  protocol::Operation scatter = Of("s", wire::Op::kReducescatter);
  scatter.spec.shape = {4, 2};
  EXPECT_EQ(admission_.OutputBytes(scatter), 8u) << "ranks 0, 1, 4 have 2, 1, 1 rows";
}

TEST_F(AdmissionTest, TheRanksOfTheJobNeedNotBeInARow) {
  protocol::Operation operation = Of("b", wire::Op::kBroadcast);
  operation.spec.root = 2;
  ExpectRefused(operation, StatusCode::kInvalidArgument, "ranks 0, 1, 4");
  operation.spec.root = 4;
  EXPECT_TRUE(Admit(operation).ok());
}

TEST_F(AdmissionTest, SplitsThatAreNotGivenAreEqual) {
  protocol::Operation operation = Of("a", wire::Op::kAlltoall);
  operation.spec.shape = {};
  operation.rows = 6;
  EXPECT_TRUE(Admit(operation).ok());
  EXPECT_THAT(splits_, ElementsAre(2, 2, 2));
  operation.name = "a2";
  operation.rows = 7;
  ExpectRefused(operation, StatusCode::kInvalidArgument, "split evenly among 3");
}

TEST_F(AdmissionTest, AProcessSetIsKnownFromAddToRemove) {
  protocol::Operation operation = Of("w");
  operation.spec.process_set = 7;
  ExpectRefused(operation, StatusCode::kInvalidArgument, "does not know");
  admission_.AddSet(7, {4, 0});
  ExpectRefused(operation, StatusCode::kInvalidArgument, "ranks 0, 4 and not rank 1");
  admission_.AddSet(8, {4, 1});
  operation.spec.process_set = 8;
  EXPECT_TRUE(Admit(operation).ok());
  admission_.RemoveSet(8);
  operation.name = "v";
  ExpectRefused(operation, StatusCode::kInvalidArgument, "does not know");
}

TEST_F(AdmissionTest, WhoHasJoinedOpensNothingUntilAllHave) {
  ASSERT_TRUE(Admit(Of("w")).ok());
  ExpectRefused(Of("join", wire::Op::kJoin), StatusCode::kInvalidArgument,
                "1 operations of this rank have not ended");
  admission_.Close(last_, Status::Ok());
  protocol::Operation of_a_set = Of("join", wire::Op::kJoin);
  admission_.AddSet(7, {0, 1});
  of_a_set.spec.process_set = 7;
  ExpectRefused(of_a_set, StatusCode::kInvalidArgument, "cannot be of a process set");
  ASSERT_TRUE(Admit(Of("join", wire::Op::kJoin)).ok());
  ExpectRefused(Of("w"), StatusCode::kInvalidArgument, "has joined");
  admission_.Close(last_, Status::Ok());
  EXPECT_TRUE(Admit(Of("w")).ok());
}

TEST_F(AdmissionTest, AfterAJoinThatFailedNothingBegins) {
  ASSERT_TRUE(Admit(Of("join", wire::Op::kJoin)).ok());
  admission_.Close(last_, Status(StatusCode::kDeadlineExceeded, ""));
  ExpectRefused(Of("w"), StatusCode::kInvalidArgument, "has joined");
}

}  // namespace
}  // namespace byteps::session
