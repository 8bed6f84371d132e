#include "src/session/completion_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <thread>
#include <vector>

namespace byteps::session {
namespace {

using ::testing::ElementsAre;

std::unique_ptr<Completion> Told(Handle handle, Completion::Function function) {
  auto completion = std::make_unique<Completion>();
  completion->handle = handle;
  completion->function = std::move(function);
  return completion;
}

TEST(CompletionThreadTest, CallsInOrderOnOneThreadOfItsOwn) {
  std::vector<Handle> handles;
  std::vector<std::thread::id> callers;
  CompletionThread thread;
  ASSERT_TRUE(thread.Start().ok());
  ASSERT_TRUE(thread.Start().ok());
  for (Handle handle = 1; handle <= 3; ++handle) {
    thread.Add(Told(handle, [&](Handle told, StatusCode) {
      handles.push_back(told);
      callers.push_back(std::this_thread::get_id());
      EXPECT_TRUE(CompletionThread::IsCurrentThread());
    }));
  }
  thread.Drain();
  EXPECT_THAT(handles, ElementsAre(1, 2, 3));
  EXPECT_THAT(callers, ElementsAre(callers[0], callers[0], callers[0]));
  EXPECT_NE(callers[0], std::this_thread::get_id());
  EXPECT_FALSE(CompletionThread::IsCurrentThread());
}

TEST(CompletionThreadTest, TellsHowItEnded) {
  std::promise<StatusCode> told;
  CompletionThread thread;
  ASSERT_TRUE(thread.Start().ok());
  auto completion = Told(1, [&](Handle, StatusCode code) { told.set_value(code); });
  completion->code = StatusCode::kPeerLost;
  thread.Add(std::move(completion));
  EXPECT_EQ(told.get_future().get(), StatusCode::kPeerLost);
}

TEST(CompletionThreadTest, AddDoesNotWaitForAFunctionThatStandsStill) {
  std::promise<void> go_on;
  std::shared_future<void> gate = go_on.get_future().share();
  int calls = 0;
  CompletionThread thread;
  ASSERT_TRUE(thread.Start().ok());
  for (Handle handle = 1; handle <= 100; ++handle) {
    thread.Add(Told(handle, [&calls, gate](Handle, StatusCode) {
      gate.wait();
      ++calls;
    }));
  }
  go_on.set_value();
  thread.Drain();
  EXPECT_EQ(calls, 100);
}

TEST(CompletionThreadTest, ItsEndCallsWhatIsLeftAndWhatThatAdds) {
  int calls = 0;
  {
    CompletionThread thread;
    ASSERT_TRUE(thread.Start().ok());
    thread.Add(Told(1, [&](Handle, StatusCode) {
      ++calls;
      thread.Add(Told(2, [&calls](Handle, StatusCode) { ++calls; }));
    }));
  }
  EXPECT_EQ(calls, 2);
}

TEST(CompletionThreadTest, WhatAFunctionHoldsIsGoneAfterDrain) {
  auto held = std::make_shared<int>(0);
  CompletionThread thread;
  ASSERT_TRUE(thread.Start().ok());
  thread.Add(Told(1, [held](Handle, StatusCode) {}));
  thread.Drain();
  EXPECT_EQ(held.use_count(), 1);
}

TEST(CompletionThreadTest, WithoutStartThereIsNothingToWaitFor) {
  CompletionThread thread;
  thread.Drain();
}

}  // namespace
}  // namespace byteps::session
