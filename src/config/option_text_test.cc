#include "src/config/option_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "src/config/option_rows.h"

namespace byteps::config {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(OptionsPageTest, TheCommittedPageIsUpToDate) {
  std::ifstream file(BYTEPS_OPTIONS_PAGE);
  ASSERT_TRUE(file) << BYTEPS_OPTIONS_PAGE << " is missing";
  std::stringstream committed;
  committed << file.rdbuf();
  EXPECT_EQ(committed.str(), OptionsPage())
      << "the options changed: run `ninja -C build generate_option_docs` and commit "
         "docs/environment.md";
}

TEST(OptionsPageTest, NamesEveryVariable) {
  const std::string page = OptionsPage();
  for (const OptionRow& row : OptionRows()) {
    EXPECT_THAT(page, HasSubstr("| `" + std::string(row.variable) + "` |"));
  }
  for (const OtherVariable& other : OtherVariables()) {
    EXPECT_THAT(page, HasSubstr("| `" + std::string(other.variable) + "` |"));
  }
}

TEST(FlagsHelpTest, ShowsTheOptionsOfTheRoleOnly) {
  const std::string server = FlagsHelp(Role::kServer);
  EXPECT_THAT(server, HasSubstr("--server_shards VALUE  or BYTEPS_SERVER_SHARDS"));
  EXPECT_THAT(server, HasSubstr("1 to 64"));
  EXPECT_THAT(server, Not(HasSubstr("--partition_bytes")));
  EXPECT_THAT(server, Not(HasSubstr("--job_secret")));
  EXPECT_THAT(FlagsHelp(Role::kCoordinator), Not(HasSubstr("--server_shards")));
}

TEST(ConfigTextTest, HasEveryOptionOfTheRole) {
  Options options;
  options.role = Role::kServer;
  options.server_shards = 4;
  options.job_secret = "open sesame";
  const std::string text = ConfigText(options);
  EXPECT_THAT(text, HasSubstr("DMLC_ROLE=server\n"));
  EXPECT_THAT(text, HasSubstr("\nBYTEPS_SERVER_SHARDS=4\n"));
  EXPECT_THAT(text, HasSubstr("\nDMLC_PORT=0  # default\n"));
  EXPECT_THAT(text, HasSubstr("\nBYTEPS_JOB_SECRET=***\n"));
  EXPECT_THAT(text, Not(HasSubstr("BYTEPS_PARTITION_BYTES")));
}

TEST(DescribeNonDefaultsTest, IsSilentAboutDefaults) {
  EXPECT_EQ(DescribeNonDefaults(Options{}), "");
}

TEST(DescribeNonDefaultsTest, MasksSecrets) {
  Options options;
  options.num_worker = 2;
  options.global_rank = 0;
  options.job_secret = "open sesame";
  EXPECT_EQ(DescribeNonDefaults(options), "num_worker=2, global_rank=0, job_secret=***");
}

}  // namespace
}  // namespace byteps::config
