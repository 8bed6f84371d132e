// The C interface as a program meets it: what is wrong is an error with a text, never a crash. One
// process, alone in its job.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "byteps/byteps.h"

namespace {

std::string TextOf(const byteps_error& error) { return error.message; }

class CApi : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(byteps_open(nullptr, 0, &session_, &error_), BYTEPS_OK) << error_.message;
  }
  void TearDown() override { byteps_close(session_); }

  byteps_request Sum(const char* name) {
    byteps_request request{};
    request.name = name;
    request.op = BYTEPS_SUM;
    request.dtype = BYTEPS_FLOAT32;
    request.shape = &count_;
    request.dimensions = 1;
    request.input = request.output = data_;
    return request;
  }
  // How it is refused, or else how it ends.
  byteps_code Run(const byteps_request& request) {
    byteps_handle handle = 0;
    byteps_code code = byteps_start(session_, &request, &handle, &error_);
    if (code != BYTEPS_OK) return code;
    code = byteps_wait(session_, handle, 60000, &error_);
    byteps_release(session_, handle);
    return code;
  }

  byteps_session* session_ = nullptr;
  byteps_error error_{};
  int64_t count_ = 4;
  float data_[4] = {1, 2, 3, 4};
};

TEST(CApiAlone, NothingIsAskedOfANullPointer) {
  byteps_session* session = nullptr;
  byteps_error error{};
  EXPECT_EQ(byteps_open(nullptr, 1, &session, &error), BYTEPS_INVALID_ARGUMENT);
  const char* settings[] = {nullptr};
  EXPECT_EQ(byteps_open(settings, 1, &session, &error), BYTEPS_INVALID_ARGUMENT);
  EXPECT_EQ(byteps_serve(nullptr, 1, &error), BYTEPS_INVALID_ARGUMENT);
  EXPECT_EQ(byteps_open(nullptr, 0, nullptr, &error), BYTEPS_INVALID_ARGUMENT);
  EXPECT_EQ(byteps_rank(nullptr), -1);
  EXPECT_EQ(byteps_size(nullptr), -1);
  EXPECT_EQ(byteps_local_rank(nullptr), -1);
  EXPECT_EQ(byteps_local_size(nullptr), -1);
  EXPECT_EQ(byteps_shutdown(nullptr, nullptr), BYTEPS_INVALID_ARGUMENT);
  byteps_close(nullptr);
}

TEST(CApiAlone, OnlyWorkersJoin) {
  for (const char* role : {"role=server", "role=scheduler"}) {
    byteps_session* session = nullptr;
    byteps_error error{};
    const char* settings[] = {role, "num_worker=1", "num_server=1", "root_host=127.0.0.1",
                              "root_port=9"};
    EXPECT_EQ(byteps_open(settings, 5, &session, &error), BYTEPS_INVALID_ARGUMENT);
    EXPECT_NE(TextOf(error).find("DMLC_ROLE"), std::string::npos) << error.message;
  }
}

TEST_F(CApi, ARequestThatCannotBeIsRefused) {
  byteps_request request = Sum("w");
  request.dtype = static_cast<byteps_dtype>(77);
  EXPECT_EQ(Run(request), BYTEPS_INVALID_ARGUMENT);
  EXPECT_NE(TextOf(error_).find("77"), std::string::npos) << error_.message;
  request = Sum("w");
  request.op = static_cast<byteps_op>(-1);
  EXPECT_EQ(Run(request), BYTEPS_INVALID_ARGUMENT);
  request = Sum("w");
  request.dimensions = SIZE_MAX / 2;
  EXPECT_EQ(Run(request), BYTEPS_INVALID_ARGUMENT);
  request = Sum("w");
  request.input = nullptr;
  EXPECT_EQ(Run(request), BYTEPS_INVALID_ARGUMENT);
  EXPECT_EQ(byteps_remove_process_set(session_, -1, &error_), BYTEPS_INVALID_ARGUMENT);
  EXPECT_NE(TextOf(error_).find("-1"), std::string::npos) << error_.message;
  EXPECT_EQ(Run(Sum("w")), BYTEPS_OK) << error_.message;
}

TEST_F(CApi, NamesHaveALimit) {
  const std::string longest(4096, 'n');
  EXPECT_EQ(Run(Sum(longest.c_str())), BYTEPS_OK) << error_.message;
  EXPECT_EQ(byteps_declare(session_, longest.c_str(), &error_), BYTEPS_OK);
  for (const std::string& name : {std::string(), longest + "n"}) {
    EXPECT_EQ(Run(Sum(name.c_str())), BYTEPS_INVALID_ARGUMENT);
    EXPECT_EQ(byteps_declare(session_, name.c_str(), &error_), BYTEPS_INVALID_ARGUMENT);
  }
}

// Programs show these texts to people and decode them.
TEST_F(CApi, ATextIsNotCutWithinACharacter) {
  for (const char* odd : {"", "x"}) {
    std::string name = odd;
    while (name.size() < 4000) name += "\u00e9";
    byteps_request request = Sum(name.c_str());
    int64_t negative = -1;
    request.shape = &negative;
    ASSERT_EQ(Run(request), BYTEPS_INVALID_ARGUMENT);
    size_t length = std::strlen(error_.message);
    EXPECT_GE(length, sizeof(error_.message) - 3);
    EXPECT_EQ(static_cast<unsigned char>(error_.message[length - 1]), 0xa9) << odd;
  }
}

TEST_F(CApi, AVeryLongLimitIsNone) {
  for (int64_t limit_ms : {int64_t{-1}, int64_t{1} << 45, INT64_MAX}) {
    byteps_request request = Sum("w");
    byteps_handle handle = 0;
    ASSERT_EQ(byteps_start(session_, &request, &handle, &error_), BYTEPS_OK);
    EXPECT_EQ(byteps_wait(session_, handle, limit_ms, &error_), BYTEPS_OK) << error_.message;
    byteps_release(session_, handle);
  }
}

// Else a child that ends by exit() would take the parent's connections along.
TEST_F(CApi, ACopyMadeByForkClosesNothing) {
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    byteps_close(session_);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(Run(Sum("w")), BYTEPS_OK) << error_.message;
}

}  // namespace
