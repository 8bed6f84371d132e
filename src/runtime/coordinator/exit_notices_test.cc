#include "src/runtime/coordinator/exit_notices.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <future>
#include <mutex>
#include <string>
#include <vector>

namespace byteps::runtime {
namespace {

class ExitNoticesTest : public ::testing::Test {
 protected:
  ExitNoticesTest() { EXPECT_EQ(::pipe(pipe_), 0); }
  ~ExitNoticesTest() override {
    for (int end : pipe_) ::close(end);
  }
  void Write(const std::string& text) {
    EXPECT_EQ(::write(pipe_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  int pipe_[2];
};

TEST_F(ExitNoticesTest, ReadsLinesInOrderAndIgnoresOthers) {
  std::vector<uint32_t> seen;
  std::vector<uint32_t> ranks;
  std::promise<void> last;
  auto notices = ExitNotices::Start(pipe_[0], [&](uint32_t process, std::optional<uint32_t> rank) {
    seen.push_back(process);
    if (rank.has_value()) ranks.push_back(*rank);
    if (process == 99) last.set_value();
  });
  Write("exited 12\nexi");
  Write("ted 4000000000\nwho is that\nexited\nexited x\nexited 5 \nexited -3\n\n");
  Write("exited 13 worker 2\nexited 14 worker\nexited 15 worker x\nexited 16 server 1\n");
  Write(std::string(5000, 'x').append("\nexited 99\n"));
  ASSERT_EQ(last.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_EQ(seen, (std::vector<uint32_t>{12, 4000000000, 13, 99}));
  EXPECT_EQ(ranks, (std::vector<uint32_t>{2}));
}

TEST_F(ExitNoticesTest, WithoutADescriptorThatIsSaid) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  int next = ::dup(0);
  ::close(next);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(next);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  auto notices = ExitNotices::Start(pipe_[0], [](uint32_t, std::optional<uint32_t>) { FAIL(); });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(notices.status().code(), StatusCode::kExhausted);
  EXPECT_NE(notices.status().message().find("Too many open files"), std::string::npos);
}

TEST_F(ExitNoticesTest, StopsAtOnceWhileNothingComes) {
  auto notices = ExitNotices::Start(pipe_[0], [](uint32_t, std::optional<uint32_t>) { FAIL(); });
  ASSERT_TRUE(notices.ok());
}

TEST_F(ExitNoticesTest, TheEndOfTheLauncherIsNoNotice) {
  auto notices = ExitNotices::Start(pipe_[0], [](uint32_t, std::optional<uint32_t>) { FAIL(); });
  ASSERT_TRUE(notices.ok());
  ::close(pipe_[1]);
  pipe_[1] = ::dup(pipe_[0]);
}

}  // namespace
}  // namespace byteps::runtime
