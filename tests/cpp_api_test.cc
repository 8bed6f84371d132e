#include "byteps/byteps.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/fake_byteps.h"

namespace byteps::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

static_assert(std::is_move_constructible_v<Session> && !std::is_copy_constructible_v<Session>);
static_assert(std::is_move_assignable_v<Handle> && !std::is_copy_assignable_v<Handle>);
static_assert(MutableData<std::vector<float>&> && MutableData<std::array<int64_t, 3>&>);
static_assert(!MutableData<const std::vector<float>&>, "the result must have a place");
static_assert(!MutableData<std::vector<std::string>&> && !MutableData<std::vector<bool>&>);
static_assert(ReadableData<const std::vector<float>&>);

const FakeOperation& Only(const FakeJob& job) {
  EXPECT_EQ(job.operations.size(), 1u);
  return job.operations.begin()->second;
}

template <typename Call>
byteps_code CodeOf(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_STRNE(error.what(), "");
    return error.code();
  }
  return BYTEPS_OK;
}

TEST(SessionTest, OpensWithSettingsAndClosesOnce) {
  FakeJob job;
  {
    Session session({job.Setting(), "num_server=2"});
    EXPECT_THAT(job.settings, ElementsAre(job.Setting(), "num_server=2"));
    EXPECT_EQ(session.Rank(), 3);
    EXPECT_EQ(session.Size(), 4);
    EXPECT_EQ(session.LocalRank(), 1);
    EXPECT_EQ(session.LocalSize(), 2);
    EXPECT_EQ(session.Machine(), 1);
    EXPECT_THAT(session.MachineSizes(), ElementsAre(2, 2));
    session.Declare("w");
    Session moved = std::move(session);
    EXPECT_EQ(job.closes, 0);
  }
  EXPECT_THAT(job.declared, ElementsAre("w"));
  EXPECT_EQ(job.shutdowns, 1);
  EXPECT_EQ(job.closes, 1);
}

TEST(SessionTest, JoiningEndsWhenItIsToldTo) {
  FakeJob job;
  bool go_on = false;
  auto asked = [&] { return go_on; };
  EXPECT_EQ(CodeOf([&] { Session session({job.Setting()}, asked); }), BYTEPS_SHUTDOWN);
  EXPECT_EQ(job.closes, 0);
  go_on = true;
  EXPECT_EQ(Session({job.Setting()}, asked).Rank(), 3);
  EXPECT_EQ(job.closes, 1);
}

TEST(SessionTest, SaysWhoTakesPart) {
  FakeJob job;
  Session session({job.Setting()});
  EXPECT_THAT(session.Members(), ElementsAre(0, 2, 3, 4, 5));
  std::vector<float> data = {1};
  EXPECT_THAT(session.StartPushPull("w", data).Members(), ElementsAre(0, 2, 3));
}

TEST(SessionTest, AssignmentLeavesTheOldJob) {
  FakeJob first;
  FakeJob second;
  Session session({first.Setting()});
  session = Session({second.Setting()});
  EXPECT_EQ(first.closes, 1);
  EXPECT_EQ(second.closes, 0);
}

TEST(SessionTest, AnExceptionThatDestroysItIsNoOrderlyEnd) {
  FakeJob job;
  auto fail = [&] {
    Session session({job.Setting()});
    Session moved = std::move(session);
    throw std::runtime_error("bad data");
  };
  EXPECT_THROW(fail(), std::runtime_error);
  EXPECT_THAT(job.reasons, ElementsAre("a C++ exception ended its session"));
  EXPECT_EQ(job.shutdowns, 1);
}

TEST(SessionTest, AnOrderlyEndWhileAnotherExceptionIsOnItsWayIsNone) {
  FakeJob job;
  struct Cleanup {
    ~Cleanup() { Session session({job.Setting()}); }
    FakeJob& job;
  };
  auto fail = [&] {
    Cleanup cleanup{job};
    throw std::runtime_error("of somebody else");
  };
  EXPECT_THROW(fail(), std::runtime_error);
  EXPECT_THAT(job.reasons, IsEmpty());
  EXPECT_EQ(job.shutdowns, 1);
}

TEST(SessionTest, GivesTheReasonOfItsUser) {
  FakeJob job;
  Session session({job.Setting()});
  session.GiveUp("no data in shard 7");
  EXPECT_THAT(job.reasons, ElementsAre("no data in shard 7"));
  session.Shutdown();
  EXPECT_EQ(CodeOf([&] { session.GiveUp("too late"); }), BYTEPS_SHUTDOWN);
}

TEST(SessionTest, ErrorsAreExceptionsWithACode) {
  FakeJob job;
  job.refuse_with = BYTEPS_REFUSED;
  EXPECT_EQ(CodeOf([&] { Session session({job.Setting()}); }), BYTEPS_REFUSED);
  EXPECT_EQ(CodeOf([] { Session session; }), BYTEPS_INVALID_ARGUMENT);
  try {
    Session session({job.Setting()});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "refused");
  }
  EXPECT_EQ(job.closes, 0);
}

TEST(SessionTest, PushPullWorksInPlaceAndTellsTheMembers) {
  FakeJob job;
  Session session({job.Setting()});
  std::vector<float> data(5);
  EXPECT_EQ(session.PushPull("g", data, BYTEPS_MAX), 4u);
  const FakeOperation& operation = Only(job);
  EXPECT_EQ(operation.name, "g");
  EXPECT_EQ(operation.op, BYTEPS_MAX);
  EXPECT_EQ(operation.dtype, BYTEPS_FLOAT32);
  EXPECT_THAT(operation.shape, ElementsAre(5));
  EXPECT_EQ(operation.input, data.data());
  EXPECT_EQ(operation.output, data.data());
  EXPECT_TRUE(operation.released);
}

TEST(SessionTest, EveryElementTypeHasItsDtype) {
  FakeJob job;
  Session session({job.Setting()});
  std::vector<byteps_dtype> dtypes;
  const auto push = [&](auto value) {
    std::array<decltype(value), 1> data = {value};
    session.PushPull("t", data);
    dtypes.push_back(job.operations.rbegin()->second.dtype);
  };
  push(1.0f), push(1.0), push(int8_t{1}), push(int16_t{1}), push(int32_t{1}), push(int64_t{1});
  push(uint8_t{1}), push(true);
  EXPECT_THAT(dtypes, ElementsAre(BYTEPS_FLOAT32, BYTEPS_FLOAT64, BYTEPS_INT8, BYTEPS_INT16,
                                  BYTEPS_INT32, BYTEPS_INT64, BYTEPS_UINT8, BYTEPS_BOOL));
}

TEST(SessionTest, BroadcastNamesItsRoot) {
  FakeJob job;
  Session session({job.Setting()});
  std::array<double, 2> data = {};
  session.Broadcast("w", data, 2);
  EXPECT_EQ(Only(job).op, BYTEPS_BROADCAST);
  EXPECT_EQ(Only(job).root_rank, 2);
}

TEST(SessionTest, AllgatherCopiesTheRows) {
  FakeJob job;
  Session session({job.Setting()});
  EXPECT_THAT(session.Allgather("r", std::vector<int32_t>{7, 8}), ElementsAre(7, 8));
  EXPECT_THAT(session.Allgather("e", std::vector<int32_t>{}), IsEmpty());
  EXPECT_TRUE(job.operations.begin()->second.released);
}

TEST(SessionTest, BarrierHasNoData) {
  FakeJob job;
  Session session({job.Setting()});
  session.Barrier();
  EXPECT_EQ(Only(job).op, BYTEPS_BARRIER);
  EXPECT_THAT(Only(job).shape, IsEmpty());
}

TEST(SessionTest, SpeedHasAMessageOfItsOwnOnFailure) {
  FakeJob job;
  Session session({job.Setting()});
  EXPECT_EQ(session.Speed().megabytes_per_second, 2.5);
  job.refuse_with = BYTEPS_SHUTDOWN;
  EXPECT_EQ(CodeOf([&] { session.Speed(); }), BYTEPS_SHUTDOWN);
}

TEST(HandleTest, WaitsPollsAndReleasesOnce) {
  FakeJob job;
  job.complete_at_once = false;
  Session session({job.Setting()});
  std::vector<float> data(2);
  Handle handle = session.StartPushPull("g", data, BYTEPS_SUM, 7);
  EXPECT_EQ(Only(job).priority, 7);
  EXPECT_FALSE(handle.IsComplete());
  EXPECT_FALSE(handle.WaitFor(milliseconds(0)));
  job.Complete(1);
  EXPECT_TRUE(handle.IsComplete());
  EXPECT_FALSE(handle.HasFailed());
  EXPECT_TRUE(handle.WaitFor(milliseconds(0)));
  Handle moved = std::move(handle);
  moved.Wait();
  EXPECT_FALSE(Only(job).released);
}

TEST(HandleTest, AssignmentReleasesTheOldOperation) {
  FakeJob job;
  Session session({job.Setting()});
  std::vector<float> data(2);
  Handle handle = session.StartPushPull("a", data);
  handle = session.StartPushPull("b", data);
  EXPECT_TRUE(job.operations.at(1).released);
  EXPECT_FALSE(job.operations.at(2).released);
}

TEST(HandleTest, TheDestructorWaitsForTheBuffers) {
  FakeJob job;
  job.complete_at_once = false;
  Session session({job.Setting()});
  std::vector<float> data(2);
  {
    const Handle handle = session.StartPushPull("g", data);
  }
  EXPECT_TRUE(Only(job).complete);
  EXPECT_TRUE(Only(job).released);
}

TEST(HandleTest, ADeadlineOfTheOperationIsAnErrorAndNotATimeout) {
  FakeJob job;
  Session session({job.Setting()});
  std::vector<float> data(2);
  Handle handle = session.StartPushPull("g", data);
  job.operations.begin()->second.outcome = BYTEPS_DEADLINE_EXCEEDED;
  EXPECT_EQ(CodeOf([&] { handle.WaitFor(milliseconds(1)); }), BYTEPS_DEADLINE_EXCEEDED);
}

TEST(HandleTest, AFailureIsSeenWithoutWaiting) {
  FakeJob job;
  job.complete_at_once = false;
  Session session({job.Setting()});
  std::vector<float> data(2);
  Handle handle = session.StartPushPull("g", data);
  EXPECT_FALSE(handle.HasFailed());
  job.Complete(1, BYTEPS_PEER_LOST);
  EXPECT_TRUE(handle.HasFailed());
  EXPECT_TRUE(handle.IsComplete());
  EXPECT_EQ(CodeOf([&] { handle.GetResult(); }), BYTEPS_PEER_LOST);
}

TEST(OnCompleteTest, IsToldOnceHowItEndedAndThenGone) {
  FakeJob job;
  job.complete_at_once = false;
  Session session({job.Setting()});
  std::vector<float> data(2);
  auto codes = std::make_shared<std::vector<byteps_code>>();
  const auto tell = [codes](byteps_code code) { codes->push_back(code); };
  Handle first = session.StartPushPull("a", data, BYTEPS_SUM, 0, tell);
  Handle second = session.StartPushPull("b", data, BYTEPS_SUM, 0, tell);
  EXPECT_THAT(*codes, IsEmpty());
  job.Complete(2, BYTEPS_MISMATCH);
  job.Complete(1);
  EXPECT_THAT(*codes, ElementsAre(BYTEPS_MISMATCH, BYTEPS_OK));
  first.Wait();
  EXPECT_EQ(codes.use_count(), 2) << "only this test has it, here and in tell";
}

TEST(OnCompleteTest, MayComeBeforeTheHandleAndNotForARefusal) {
  FakeJob job;
  Session session({job.Setting()});
  std::vector<float> data(2);
  int calls = 0;
  auto held = std::make_shared<int>(0);
  const auto tell = [&calls, held](byteps_code) { ++calls; };
  session.StartPushPull("a", data, BYTEPS_SUM, 0, tell).Wait();
  EXPECT_EQ(calls, 1);
  job.refuse_with = BYTEPS_DUPLICATE_NAME;
  EXPECT_EQ(CodeOf([&] { session.StartPushPull("a", data, BYTEPS_SUM, 0, tell).Wait(); }),
            BYTEPS_DUPLICATE_NAME);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(held.use_count(), 2);
}

TEST(OnCompleteTest, ARequestOfItsOwnMayHaveOneToo) {
  FakeJob job;
  Session session({job.Setting()});
  byteps_request request{};
  request.name = "b";
  request.op = BYTEPS_BARRIER;
  int calls = 0;
  session.Start(request, [&calls](byteps_code) { ++calls; }).Wait();
  EXPECT_EQ(calls, 1);
}

TEST(HandleTest, MayOutliveItsSession) {
  FakeJob job;
  job.complete_at_once = false;
  std::vector<float> data(2);
  std::optional<Session> session;
  session.emplace(std::vector<std::string>{job.Setting()});
  {
    Handle handle = session->StartPushPull("g", data);
    session.reset();
    EXPECT_EQ(job.shutdowns, 1);
    EXPECT_EQ(job.closes, 0);
    EXPECT_EQ(CodeOf([&] { handle.Wait(); }), BYTEPS_SHUTDOWN);
  }
  EXPECT_EQ(job.closes, 1);
}

TEST(HandleTest, AFailedStartLeavesNoHandle) {
  FakeJob job;
  Session session({job.Setting()});
  job.refuse_with = BYTEPS_DUPLICATE_NAME;
  std::vector<float> data(2);
  EXPECT_EQ(CodeOf([&] { session.PushPull("g", data); }), BYTEPS_DUPLICATE_NAME);
  EXPECT_THAT(job.operations, IsEmpty());
}

TEST(ServeTest, PassesSettingsAndErrors) {
  Serve({"role=server"});
  EXPECT_EQ(CodeOf([] { Serve({"role=worker"}); }), BYTEPS_INVALID_ARGUMENT);
  EXPECT_EQ(Version(), "fake");
  EXPECT_EQ(Interface(), BYTEPS_INTERFACE);
}

}  // namespace
}  // namespace byteps::testing
