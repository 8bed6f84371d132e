#include "src/transport/host_identity.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace byteps::transport {
namespace {

TEST(HostIdentityTest, IsTheSameEveryTime) {
  EXPECT_FALSE(HostIdentity().empty());
  EXPECT_EQ(HostIdentity(), HostIdentity());
}

TEST(HostIdentityTest, DiffersInAnotherNetworkNamespace) {
  std::string here = HostIdentity();
  constexpr int kSame = 1;
  constexpr int kNotAllowed = 2;
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0 && unshare(CLONE_NEWNET) != 0) {
      _exit(kNotAllowed);
    }
    _exit(HostIdentity() == here ? kSame : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNotAllowed) GTEST_SKIP() << "no right to make a network namespace";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace byteps::transport
