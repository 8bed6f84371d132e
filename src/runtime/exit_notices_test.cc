#include "src/runtime/exit_notices.h"

#include <gtest/gtest.h>
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
  ExitNotices notices(pipe_[0], [&](uint32_t process, std::optional<uint32_t> rank) {
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

TEST_F(ExitNoticesTest, StopsAtOnceWhileNothingComes) {
  ExitNotices notices(pipe_[0], [](uint32_t, std::optional<uint32_t>) { FAIL(); });
}

TEST_F(ExitNoticesTest, TheEndOfTheLauncherIsNoNotice) {
  ExitNotices notices(pipe_[0], [](uint32_t, std::optional<uint32_t>) { FAIL(); });
  ::close(pipe_[1]);
  pipe_[1] = ::dup(pipe_[0]);
}

}  // namespace
}  // namespace byteps::runtime
