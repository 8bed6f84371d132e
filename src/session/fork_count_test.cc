#include "src/session/fork_count.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace byteps::session {
namespace {

TEST(ForkCountTest, ACopyKnowsThatItIsOneAndTheOriginalDoesNotChange) {
  ASSERT_TRUE(CountForks().ok());
  ASSERT_TRUE(CountForks().ok());
  const uint64_t before = ForkCount();
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool counted_once = ForkCount() == before + 1;
    pid_t grandchild = fork();
    if (grandchild == 0) _exit(ForkCount() == before + 2 ? 0 : 1);
    int status = 1;
    waitpid(grandchild, &status, 0);
    _exit(counted_once && status == 0 ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(ForkCount(), before);
}

}  // namespace
}  // namespace byteps::session
