#include "src/runtime/loop_thread.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "src/transport/inproc/inproc_transport.h"
#include "src/transport/tcp/tcp_transport.h"

namespace byteps::runtime {
namespace {

class LoopThreadTest : public testing::TestWithParam<bool> {
 protected:
  const std::unique_ptr<transport::Transport> transport =
      GetParam() ? transport::MakeTcpTransport({}) : transport::MakeInprocTransport();
  const std::unique_ptr<transport::Loop> loop = transport->MakeLoop();
};

INSTANTIATE_TEST_SUITE_P(Media, LoopThreadTest, testing::Bool());

TEST_P(LoopThreadTest, ALoopThatIsStoppedEndsWell) {
  loop->Stop();
  EXPECT_TRUE(RunLoop(*loop).ok());
}

TEST_P(LoopThreadTest, WhatIsThrownEndsTheLoopAndIsTold) {
  int later = 0;
  loop->Post([] { throw std::bad_alloc(); });
  loop->Post([&later] { ++later; });
  EXPECT_EQ(RunLoop(*loop).code(), StatusCode::kExhausted);
  EXPECT_EQ(later, 0);
  loop->Post([] { throw std::runtime_error("it is late"); });
  Status how = RunLoop(*loop);
  EXPECT_EQ(how.code(), StatusCode::kInternal);
  EXPECT_EQ(how.message(), "it is late");
}

TEST_P(LoopThreadTest, WhatIsNoExceptionEndsItToo) {
  loop->Post([] { throw 3; });
  EXPECT_EQ(RunLoop(*loop).code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace byteps::runtime
