#include "src/transport/rdma/verbs.h"

#include <gtest/gtest.h>

#include <string>

#include "src/transport/rdma/verbs_standin_for_test.h"

namespace byteps::transport {
namespace {

bool Says(const Status& status, const std::string& part) {
  return status.message().find(part) != std::string::npos;
}

TEST(VerbsTest, WithoutTheLibraryTheErrorSaysWhatToInstall) {
  Result<Verbs> verbs = LoadVerbs("libthere-is-none.so.1");
  ASSERT_EQ(verbs.status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Says(verbs.status(), "libthere-is-none.so.1")) << verbs.status().ToString();
  EXPECT_TRUE(Says(verbs.status(), "ibverbs-providers")) << verbs.status().ToString();
}

TEST(VerbsTest, ALibraryThatIsTooOldIsNamedWithTheFirstFunctionThatItLacks) {
  Result<Verbs> verbs = LoadVerbs("libc.so.6");
  ASSERT_EQ(verbs.status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Says(verbs.status(), "libc.so.6 has no function ibv_get_device_list (IBVERBS_1.1)"))
      << verbs.status().ToString();
  EXPECT_TRUE(Says(verbs.status(), "newer rdma-core")) << verbs.status().ToString();
}

TEST(VerbsTest, TheStandInIsFoundLikeTheRealLibrary) {
  Result<Verbs> verbs = LoadVerbs(standin::LibraryPath());
  ASSERT_TRUE(verbs.ok()) << verbs.status().ToString();
  EXPECT_NE(verbs->query_gid_ex, nullptr);
  EXPECT_NE(verbs->wc_status_str, nullptr);
}

}  // namespace
}  // namespace byteps::transport
