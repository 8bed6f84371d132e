#include "src/config/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace byteps::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<Arguments> Parse(Role role, std::vector<const char*> words) {
  return ParseArguments(role, words);
}

std::string ErrorOf(Role role, std::vector<const char*> words) {
  const Result<Arguments> arguments = Parse(role, std::move(words));
  if (arguments.ok()) return "no error";
  EXPECT_EQ(arguments.status().code(), StatusCode::kInvalidArgument);
  return arguments.status().message();
}

TEST(ParseArgumentsTest, NoFlagsGiveTheRole) {
  const Result<Arguments> arguments = Parse(Role::kCoordinator, {});
  ASSERT_TRUE(arguments.ok()) << arguments.status().ToString();
  EXPECT_THAT(arguments->settings, ElementsAre("role=scheduler"));
  EXPECT_FALSE(arguments->help);
  EXPECT_FALSE(arguments->version);
}

TEST(ParseArgumentsTest, FlagsBecomeSettings) {
  const Result<Arguments> arguments =
      Parse(Role::kServer, {"--num_worker", "2", "--num-server=3", "--root_host", "::1",
                            "--log_hide_time", "1", "--num_worker", "4"});
  ASSERT_TRUE(arguments.ok()) << arguments.status().ToString();
  EXPECT_THAT(arguments->settings, ElementsAre("role=server", "root_host=::1", "num_worker=4",
                                               "num_server=3", "log_hide_time=1"));
}

TEST(ParseArgumentsTest, HelpAndVersion) {
  for (const char* flag : {"-h", "--help"}) {
    const Result<Arguments> arguments = Parse(Role::kServer, {flag});
    ASSERT_TRUE(arguments.ok());
    EXPECT_TRUE(arguments->help);
  }
  const Result<Arguments> arguments = Parse(Role::kServer, {"--version"});
  ASSERT_TRUE(arguments.ok());
  EXPECT_TRUE(arguments->version);
}

TEST(ParseArgumentsTest, PrintConfigNamesTheRoleThatIsShown) {
  const Result<Arguments> plain = Parse(Role::kServer, {"--port", "9001"});
  ASSERT_TRUE(plain.ok());
  EXPECT_FALSE(plain->print_config);
  const Result<Arguments> shown = Parse(Role::kServer, {"--print-config", "worker"});
  ASSERT_TRUE(shown.ok());
  EXPECT_TRUE(shown->print_config);
  EXPECT_THAT(shown->settings, ElementsAre("role=worker"));
  EXPECT_THAT(ErrorOf(Role::kServer, {"--print-config"}), HasSubstr("print_config"));
}

TEST(ParseArgumentsTest, UnknownFlagsAreErrors) {
  EXPECT_THAT(ErrorOf(Role::kServer, {"--num_wokrer", "2"}),
              AllOf(HasSubstr("num_wokrer"), HasSubstr("did you mean --num_worker?")));
  EXPECT_THAT(ErrorOf(Role::kServer, {"word"}), HasSubstr("word"));
  EXPECT_THAT(ErrorOf(Role::kServer, {"--port"}), HasSubstr("port"));
  EXPECT_THAT(ErrorOf(Role::kServer, {"--partition_bytes", "4096"}), HasSubstr("partition_bytes"));
  EXPECT_THAT(ErrorOf(Role::kServer, {"--role", "worker"}), HasSubstr("role"));
  EXPECT_THAT(ErrorOf(Role::kServer, {"--job_secret", "x"}), HasSubstr("job_secret"));
  EXPECT_THAT(ErrorOf(Role::kServer, {"-"}), HasSubstr("-"));
}

}  // namespace
}  // namespace byteps::config
