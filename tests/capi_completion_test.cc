// Tests open operations of two ranks: how a program sees their ends, by polling, waiting and
// callback, and what becomes of them when a session is closed or the process is copied.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "byteps/byteps.h"
#include "byteps/byteps.hpp"
#include "tests/capi_job.h"

namespace byteps::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The arguments that a callback got, and the work that it does on its thread.
struct Told {
  std::vector<byteps_handle> handles;
  std::vector<byteps_code> codes;
  std::function<void(byteps_handle)> act;
  std::promise<void> first;

  static void Call(void* context, byteps_handle handle, byteps_code code) {
    auto* told = static_cast<Told*>(context);
    told->handles.push_back(handle);
    told->codes.push_back(code);
    if (told->act != nullptr) told->act(handle);
    if (told->handles.size() == 1) told->first.set_value();
  }
};

class CApiCompletion : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(job_.Open()); }

  byteps_request Sum(const char* name, int rank) {
    byteps_request request{};
    request.name = name;
    request.op = BYTEPS_SUM;
    request.dtype = BYTEPS_FLOAT32;
    request.shape = &count_;
    request.dimensions = 1;
    request.input = request.output = data_[rank];
    return request;
  }
  byteps_handle Start(int rank, const byteps_request& request) {
    byteps_handle handle = 0;
    byteps_error error{};  // not error_: a callback's thread may call this
    EXPECT_EQ(byteps_start(job_.session(rank), &request, &handle, &error), BYTEPS_OK)
        << error.message;
    return handle;
  }
  // Starts the same operation on both ranks.
  byteps_handle StartBoth(byteps_request request) {
    byteps_request other = request;
    other.on_complete = nullptr;
    if (other.input != nullptr) other.input = other.output = data_[1];
    const byteps_handle second = Start(1, other);
    const byteps_handle first = Start(0, request);
    EXPECT_EQ(byteps_wait(job_.session(1), second, kPatienceMs, &error_), BYTEPS_OK)
        << error_.message;
    byteps_release(job_.session(1), second);
    return first;
  }
  byteps_code Wait(int rank, byteps_handle handle) {
    return byteps_wait(job_.session(rank), handle, kPatienceMs, &error_);
  }

  static constexpr int64_t kPatienceMs = 60000;
  CApiJob job_{2};
  byteps_error error_{};
  int64_t count_ = 2;
  float data_[2][2] = {{1, 2}, {10, 20}};
};

TEST_F(CApiCompletion, APollerTellsRunningDoneAndFailedApart) {
  const byteps_handle good = Start(0, Sum("good", 0));
  byteps_request wrong = Sum("bad", 0);
  wrong.op = BYTEPS_MAX;
  const byteps_handle bad = Start(0, wrong);
  EXPECT_EQ(byteps_poll(job_.session(0), good), BYTEPS_RUNNING);
  byteps_result result{};
  EXPECT_EQ(byteps_get_result(job_.session(0), good, &result, &error_), BYTEPS_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message, HasSubstr("not complete"));
  Start(1, Sum("good", 1));
  Start(1, Sum("bad", 1));
  EXPECT_EQ(Wait(0, good), BYTEPS_OK) << error_.message;
  EXPECT_EQ(Wait(0, bad), BYTEPS_MISMATCH);
  EXPECT_EQ(byteps_poll(job_.session(0), good), BYTEPS_DONE);
  EXPECT_EQ(byteps_poll(job_.session(0), bad), BYTEPS_FAILED);
  EXPECT_EQ(byteps_get_result(job_.session(0), good, &result, &error_), BYTEPS_OK);
  EXPECT_EQ(result.members, 2u);
  EXPECT_EQ(byteps_get_result(job_.session(0), bad, &result, &error_), BYTEPS_MISMATCH);
  EXPECT_THAT(error_.message, HasSubstr("disagree"));
  EXPECT_EQ(result.members, 0u);
  EXPECT_FLOAT_EQ(data_[0][1], 22);
}

TEST_F(CApiCompletion, ACallbackComesOnceOnAThreadOfTheLibrary) {
  Told told;
  std::thread::id caller;
  int seen = BYTEPS_UNKNOWN;
  float sum = 0;
  told.act = [&](byteps_handle handle) {
    caller = std::this_thread::get_id();
    seen = byteps_poll(job_.session(0), handle);
    sum = data_[0][0];
    byteps_release(job_.session(0), handle);
  };
  byteps_request request = Sum("w", 0);
  request.on_complete = Told::Call;
  request.context = &told;
  const byteps_handle handle = StartBoth(request);
  told.first.get_future().get();
  job_.Close();
  EXPECT_THAT(told.handles, ElementsAre(handle));
  EXPECT_THAT(told.codes, ElementsAre(BYTEPS_OK));
  EXPECT_EQ(seen, BYTEPS_DONE);
  EXPECT_FLOAT_EQ(sum, 11);
  EXPECT_NE(caller, std::this_thread::get_id());
}

TEST_F(CApiCompletion, ACallbackMayStartAndNotBlock) {
  Told second;
  byteps_request again = Sum("second", 0);
  again.on_complete = Told::Call;
  again.context = &second;
  Told told;
  std::vector<byteps_code> refused;
  byteps_code waited = BYTEPS_INTERNAL;
  byteps_handle open = Start(0, Sum("open", 0));
  told.act = [&](byteps_handle handle) {
    byteps_session* session = job_.session(0);
    waited = byteps_wait(session, handle, -1, nullptr);  // has ended, so this does not block
    byteps_error error{};
    refused.push_back(byteps_wait(session, open, -1, &error));
    EXPECT_THAT(error.message, HasSubstr("completion callback"));
    refused.push_back(byteps_wait(session, open, 0, nullptr));
    refused.push_back(byteps_shutdown(session, nullptr));
    const int32_t ranks[] = {0, 1};
    refused.push_back(byteps_add_process_set(session, ranks, 2, 1, nullptr));
    refused.push_back(byteps_remove_process_set(session, 1, nullptr));
    refused.push_back(byteps_serve(nullptr, 0, nullptr));
    byteps_session* opened = nullptr;
    refused.push_back(byteps_open(nullptr, 0, &opened, nullptr));
    byteps_close(session);
    Start(0, again);
  };
  byteps_request request = Sum("first", 0);
  request.on_complete = Told::Call;
  request.context = &told;
  const byteps_handle first = StartBoth(request);
  const byteps_handle second_of_1 = Start(1, Sum("second", 1));
  EXPECT_EQ(Wait(1, second_of_1), BYTEPS_OK) << error_.message;
  second.first.get_future().get();
  EXPECT_EQ(waited, BYTEPS_OK);
  EXPECT_THAT(refused,
              ElementsAre(BYTEPS_INVALID_ARGUMENT, BYTEPS_DEADLINE_EXCEEDED,
                          BYTEPS_INVALID_ARGUMENT, BYTEPS_INVALID_ARGUMENT, BYTEPS_INVALID_ARGUMENT,
                          BYTEPS_INVALID_ARGUMENT, BYTEPS_INVALID_ARGUMENT));
  EXPECT_EQ(byteps_poll(job_.session(0), first), BYTEPS_DONE) << "the session is still open";
  Start(1, Sum("open", 1));
  EXPECT_EQ(Wait(0, open), BYTEPS_OK);
}

TEST_F(CApiCompletion, CloseTellsEverybodyAndComesBackAfterThem) {
  Told told;
  std::promise<void> go_on;
  std::shared_future<void> gate = go_on.get_future().share();
  std::atomic<bool> returned = false;
  told.act = [&, gate](byteps_handle) {
    gate.wait();
    returned = true;
  };
  byteps_request request = Sum("open", 0);
  request.on_complete = Told::Call;
  request.context = &told;
  const byteps_handle handle = Start(0, request);
  byteps_session* session = job_.session(0);
  std::future<byteps_code> waiter =
      std::async(std::launch::async, [&] { return byteps_wait(session, handle, -1, nullptr); });
  EXPECT_EQ(byteps_shutdown(session, &error_), BYTEPS_OK) << "does not wait for callbacks";
  EXPECT_EQ(byteps_poll(session, handle), BYTEPS_FAILED);
  EXPECT_EQ(waiter.get(), BYTEPS_SHUTDOWN);
  std::thread closer([&] {
    byteps_close(session);
    EXPECT_TRUE(returned);
  });
  EXPECT_FALSE(returned);
  go_on.set_value();
  closer.join();
  EXPECT_THAT(told.handles, ElementsAre(handle));
  EXPECT_THAT(told.codes, ElementsAre(BYTEPS_SHUTDOWN));
}

TEST_F(CApiCompletion, CloseEndsAWaitOfAnotherThread) {
  const byteps_handle handle = Start(0, Sum("open", 0));
  byteps_session* session = job_.session(0);
  std::future<byteps_code> waiter =
      std::async(std::launch::async, [&] { return byteps_wait(session, handle, -1, nullptr); });
  byteps_close(session);
  EXPECT_EQ(waiter.get(), BYTEPS_SHUTDOWN) << "by the end of the operation, or of the session";
}

TEST_F(CApiCompletion, AReleasedOperationIsToldToo) {
  Told told;
  byteps_request request = Sum("w", 0);
  request.on_complete = Told::Call;
  request.context = &told;
  const byteps_handle handle = Start(0, request);
  byteps_release(job_.session(0), handle);
  EXPECT_EQ(byteps_poll(job_.session(0), handle), BYTEPS_UNKNOWN);
  const byteps_handle other = Start(1, Sum("w", 1));
  EXPECT_EQ(Wait(1, other), BYTEPS_OK) << error_.message;
  told.first.get_future().get();
  EXPECT_THAT(told.handles, ElementsAre(handle));
}

TEST_F(CApiCompletion, ANameIsTakenUntilItsOperationHasEnded) {
  Told told;
  const byteps_handle first = Start(0, Sum("w", 0));
  float other[2] = {5, 5};
  byteps_request second = Sum("w", 0);
  second.input = second.output = other;
  second.on_complete = Told::Call;
  second.context = &told;
  byteps_handle refused = 7;
  EXPECT_EQ(byteps_start(job_.session(0), &second, &refused, &error_), BYTEPS_DUPLICATE_NAME);
  EXPECT_THAT(error_.message, HasSubstr("'w' is already in flight, with sum of float32[2]"));
  EXPECT_EQ(refused, 0u);
  const byteps_handle of_1 = Start(1, Sum("w", 1));
  EXPECT_EQ(Wait(0, first), BYTEPS_OK);
  EXPECT_EQ(Wait(1, of_1), BYTEPS_OK);
  second.on_complete = nullptr;
  const byteps_handle again = StartBoth(second);
  EXPECT_EQ(Wait(0, again), BYTEPS_OK) << error_.message;
  job_.Close();
  EXPECT_TRUE(told.handles.empty()) << "it was never accepted";
}

TEST_F(CApiCompletion, WhoHasJoinedIsRefusedAtTheStart) {
  byteps_request join{};
  join.name = "join";
  join.op = BYTEPS_JOIN;
  const byteps_handle open = Start(0, Sum("w", 0));
  byteps_handle refused = 7;
  EXPECT_EQ(byteps_start(job_.session(0), &join, &refused, &error_), BYTEPS_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message, HasSubstr("have not ended"));
  Start(1, Sum("w", 1));
  EXPECT_EQ(Wait(0, open), BYTEPS_OK) << error_.message;
  const byteps_handle joined = Start(0, join);
  const byteps_request after = Sum("after", 0);
  EXPECT_EQ(byteps_start(job_.session(0), &after, &refused, &error_), BYTEPS_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message, HasSubstr("has joined"));
  // The barrier goes on without rank 0. Then rank 1 joins, too.
  byteps_request barrier{};
  barrier.name = "barrier";
  barrier.op = BYTEPS_BARRIER;
  EXPECT_EQ(Wait(1, Start(1, barrier)), BYTEPS_OK) << error_.message;
  const byteps_handle last = Start(1, join);
  EXPECT_EQ(Wait(1, last), BYTEPS_OK) << error_.message;
  EXPECT_EQ(Wait(0, joined), BYTEPS_OK) << error_.message;
  byteps_result result{};
  EXPECT_EQ(byteps_get_result(job_.session(0), joined, &result, &error_), BYTEPS_OK);
  EXPECT_EQ(result.first_dimension, 1) << "the rank that joined last";
  EXPECT_EQ(Wait(0, StartBoth(after)), BYTEPS_OK) << "all have joined";
}

// Waits for a child that must not hang; returns whether its exit status is 0.
bool IsContent(pid_t child) {
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(CApiCompletion, ACopyMadeByForkDoesNotWaitForTheParentsOperation) {
  byteps_request request{};
  request.name = "open";
  request.op = BYTEPS_BARRIER;
  const byteps_handle handle = Start(0, request);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(30);  // ends the child if it hangs
    byteps_error error{};
    bool ok = byteps_wait(job_.session(0), handle, -1, &error) == BYTEPS_INVALID_ARGUMENT;
    byteps_release(job_.session(0), handle);
    byteps_close(job_.session(0));
    _exit(ok ? 0 : 1);
  }
  EXPECT_TRUE(IsContent(child));
  const byteps_handle other = Start(1, request);
  EXPECT_EQ(Wait(0, handle), BYTEPS_OK) << error_.message;
  EXPECT_EQ(Wait(1, other), BYTEPS_OK) << error_.message;
}

// A child that ends by exit() destroys its copies of static objects, in any order.
TEST(CppApiFork, TheDestructorsOfCopiesDoNothing) {
  CApiJob job(2);
  job.StartServices();
  std::optional<Session> first;
  std::thread opener([&] { first.emplace(job.WorkerSettings(0)); });
  std::optional<Session> second;
  second.emplace(job.WorkerSettings(1));
  opener.join();
  std::vector<float> data = {1, 2};
  std::optional<Handle> open = first->StartPushPull("w", data, BYTEPS_SUM);
  for (bool session_first : {true, false}) {
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(30);
      if (session_first) first.reset();
      open.reset();
      first.reset();
      second.reset();
      _exit(0);
    }
    EXPECT_TRUE(IsContent(child));
  }
  std::vector<float> other = {10, 20};
  second->PushPull("w", other, BYTEPS_SUM);
  open->Wait();
  EXPECT_THAT(data, ElementsAre(11, 22)) << "the job goes on";
  open.reset();
  std::thread closer([&] { first.reset(); });
  second.reset();
  closer.join();
}

}  // namespace
}  // namespace byteps::testing
