#include "src/runtime/loop_thread.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "src/runtime/fake_loop_for_test.h"

namespace byteps::runtime {
namespace {

TEST(RunLoopTest, ALoopThatComesToItsEndEndsWell) {
  FakeLoop loop;
  EXPECT_TRUE(RunLoop(loop).ok());
}

TEST(RunLoopTest, WhatIsThrownEndsTheLoopAndIsTold) {
  FakeLoop loop;
  int later = 0;
  loop.Post([] { throw std::bad_alloc(); });
  loop.Post([] { throw std::runtime_error("it is late"); });
  loop.Post([] { throw 3; });
  loop.Post([&later] { ++later; });
  EXPECT_EQ(RunLoop(loop).code(), StatusCode::kExhausted);
  EXPECT_EQ(RunLoop(loop), Status(StatusCode::kInternal, "it is late"));
  EXPECT_EQ(RunLoop(loop).code(), StatusCode::kInternal);
  EXPECT_EQ(later, 0);
}

TEST(AskLoopTest, WhatNobodyWaitsForAnyMoreIsNotDone) {
  FakeLoop loop;
  int ran = 0;
  Status asked = AskLoop(loop, Duration::zero(), [&ran] {
    ++ran;
    return Status::Ok();
  });
  EXPECT_EQ(asked.code(), StatusCode::kDeadlineExceeded);
  loop.RunPosted();
  EXPECT_EQ(ran, 0) << "the caller was told that it has not happened";
}

TEST(PostOrStopTest, WhatCannotBePostedStopsTheLoop) {
  FakeLoop loop;
  int ran = 0;
  PostOrStop(loop, [&ran] { ++ran; });
  loop.RunPosted();
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(loop.stops, 0);
  loop.has_no_memory = true;
  PostOrStop(loop, [&ran] { ++ran; });
  loop.RunPosted();
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(loop.stops, 1);
}

}  // namespace
}  // namespace byteps::runtime
