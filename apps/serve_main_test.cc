#include "apps/serve_main.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace byteps::apps {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Keeps the text that was written to a stdio stream.
class Captured {
 public:
  Captured() : file_(open_memstream(&text_, &size_)) {}
  ~Captured() {
    std::fclose(file_);
    std::free(text_);
  }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

  std::FILE* file() { return file_; }
  std::string Text() {
    std::fflush(file_);
    return {text_, size_};
  }

 private:
  char* text_ = nullptr;
  size_t size_ = 0;
  std::FILE* file_;
};

byteps_code Fail(byteps_error* error, byteps_code code, const std::string& text) {
  error->code = code;
  std::snprintf(error->message, sizeof(error->message), "%s", text.c_str());
  return code;
}

// Stands in for the library: fails with the settings it was given as the message.
byteps_code EchoSettings(const char* const* settings, size_t count, byteps_error* error) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += std::string(settings[i]) + ";";
  return Fail(error, BYTEPS_PEER_LOST, text);
}
byteps_code Succeed(const char* const*, size_t, byteps_error*) { return BYTEPS_OK; }
byteps_code Refuse(const char* const*, size_t, byteps_error* error) {
  return Fail(error, BYTEPS_INVALID_ARGUMENT, "port is wrong");
}
const char* Version() { return "1.2.3"; }

struct Outcome {
  int status;
  std::string output;
  std::string error;
};

Outcome Invoke(Role role, decltype(Service::serve) serve, std::vector<const char*> words) {
  Captured output;
  Captured error;
  const Service service = {role, "bps-test", serve, Version};
  const int status = RunService(service, words, output.file(), error.file());
  return {status, output.Text(), error.Text()};
}

TEST(RunServiceTest, PassesTheFlagsAsSettings) {
  const Outcome outcome = Invoke(Role::kServer, EchoSettings, {"--num-worker", "2"});
  EXPECT_EQ(outcome.status, kExitFailed);
  EXPECT_EQ(outcome.error, "bps-test: role=server;num_worker=2;\n");
  EXPECT_THAT(outcome.output, IsEmpty());
}

TEST(RunServiceTest, IsSilentWhenTheJobEndsInOrder) {
  const Outcome outcome = Invoke(Role::kCoordinator, Succeed, {});
  EXPECT_EQ(outcome.status, kExitOk);
  EXPECT_THAT(outcome.output + outcome.error, IsEmpty());
}

TEST(RunServiceTest, WrongValuesAreWrongUsage) {
  const Outcome outcome = Invoke(Role::kServer, Refuse, {});
  EXPECT_EQ(outcome.status, kExitUsage);
  EXPECT_EQ(outcome.error, "bps-test: port is wrong\n");
}

TEST(RunServiceTest, WrongFlagsDoNotStartAnything) {
  const Outcome outcome = Invoke(Role::kServer, Succeed, {"--prot", "1"});
  EXPECT_EQ(outcome.status, kExitUsage);
  EXPECT_THAT(outcome.error, HasSubstr("did you mean --port?"));
}

TEST(RunServiceTest, HelpAndVersionDoNotStartAnything) {
  const Outcome help = Invoke(Role::kServer, EchoSettings, {"--help"});
  EXPECT_EQ(help.status, kExitOk);
  EXPECT_THAT(help.output, AllOf(HasSubstr("Usage: bps-test"), HasSubstr("--server_shards")));
  const Outcome version = Invoke(Role::kServer, EchoSettings, {"--version"});
  EXPECT_EQ(version.status, kExitOk);
  EXPECT_EQ(version.output, "bps-test 1.2.3\n");
  EXPECT_THAT(help.error + version.error, IsEmpty());
}

TEST(RunServiceTest, PrintsOptionsAndStartsNothing) {
  const std::vector<const char*> words = {"--print-config", "server", "--num-worker", "2",
                                          "--num-server",   "1",      "--root-host",  "::1",
                                          "--root-port",    "9000"};
  const Outcome shown = Invoke(Role::kServer, EchoSettings, words);
  EXPECT_EQ(shown.status, kExitOk) << shown.error;
  EXPECT_THAT(shown.output, HasSubstr("DMLC_NUM_WORKER=2\n"));
  const Outcome wrong = Invoke(Role::kServer, EchoSettings, {"--print-config", "wroker"});
  EXPECT_EQ(wrong.status, kExitUsage);
  EXPECT_THAT(wrong.error, HasSubstr("wroker"));
}

}  // namespace
}  // namespace byteps::apps
