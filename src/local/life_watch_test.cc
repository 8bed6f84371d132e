#include "src/local/life_watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <utility>

namespace byteps::local {
namespace {

std::pair<UniqueFd, UniqueFd> Pipe() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

TEST(LifeWatchTest, TellsWhichProcessEndedOnce) {
  auto [first_fd, first] = Pipe();
  auto [second_fd, second] = Pipe();
  std::vector<UniqueFd> life_fds;
  life_fds.push_back(std::move(first_fd));
  life_fds.emplace_back();  // nobody's
  life_fds.push_back(std::move(second_fd));
  std::vector<uint32_t> ended;
  std::promise<void> both;
  auto watch = LifeWatch::Start(std::move(life_fds), [&](uint32_t index) {
    ended.push_back(index);
    if (ended.size() == 1) first.Close();
    if (ended.size() == 2) both.set_value();
  });
  ASSERT_TRUE(watch.ok()) << watch.status().ToString();
  second.Close();
  both.get_future().wait();
  watch.value().reset();
  EXPECT_EQ(ended, (std::vector<uint32_t>{2, 0}));
}

TEST(LifeWatchTest, EndsWhileProcessesLive) {
  auto [life_fd, held] = Pipe();
  std::vector<UniqueFd> life_fds;
  life_fds.push_back(std::move(life_fd));
  auto watch = LifeWatch::Start(std::move(life_fds), [](uint32_t) { FAIL(); });
  ASSERT_TRUE(watch.ok()) << watch.status().ToString();
  watch.value().reset();
}

}  // namespace
}  // namespace byteps::local
