// Tests the C interface as a program meets it: a mistake causes an error with a text, never a
// crash. One process, alone in its job.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "byteps/byteps.h"
#include "byteps/sums.h"

namespace {

std::string TextOf(const byteps_error& error) { return error.message; }

class CApi : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(byteps_open(nullptr, 0, &session_, &error_), BYTEPS_OK) << error_.message;
  }
  void TearDown() override { byteps_close(session_); }  // a second close does nothing

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
  // Returns the code of the refusal; if the operation is accepted, the code of its end.
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
  EXPECT_EQ(byteps_machine(nullptr), -1);
  EXPECT_EQ(byteps_machine_size(nullptr, 0), -1);
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

// byteps_start refuses, not byteps_wait, and accepts nothing: there is no handle, no name is taken,
// and no callback comes.
TEST_F(CApi, StartItselfRefusesWhatThisRankCanSeeAlone) {
  int calls = 0;
  auto refused = [&](byteps_request request) -> std::string {
    request.on_complete = [](void* context, byteps_handle, byteps_code) {
      ++*static_cast<int*>(context);
    };
    request.context = &calls;
    byteps_handle handle = 7;
    EXPECT_EQ(byteps_start(session_, &request, &handle, &error_), BYTEPS_INVALID_ARGUMENT);
    EXPECT_EQ(handle, 0u);
    return TextOf(error_);
  };
  byteps_request request = Sum("w");
  request.input = nullptr;
  EXPECT_NE(refused(request).find("no memory"), std::string::npos);
  request = Sum("w");
  request.output = nullptr;
  EXPECT_NE(refused(request).find("no memory"), std::string::npos);
  request = Sum("w");
  request.output = data_ + 1;
  EXPECT_NE(refused(request).find("overlap"), std::string::npos);
  request = Sum("w");
  const int64_t negative = -1;
  request.shape = &negative;
  EXPECT_NE(refused(request).find("negative"), std::string::npos);
  request = Sum("w");
  request.process_set = 5;
  EXPECT_NE(refused(request).find("does not know"), std::string::npos);
  request = Sum("w");
  request.op = BYTEPS_BROADCAST;
  for (int32_t root : {-1, 1}) {
    request.root_rank = root;
    EXPECT_NE(refused(request).find("from rank " + std::to_string(root)), std::string::npos);
  }
  request = Sum("w");
  request.op = BYTEPS_REDUCESCATTER;
  request.combine = BYTEPS_ALLGATHER;
  EXPECT_NE(refused(request).find("combine"), std::string::npos);
  request.combine = BYTEPS_SUM;
  request.atomic = 1;
  EXPECT_NE(refused(request).find("atomic"), std::string::npos);
  request = Sum("w");
  request.op = BYTEPS_ALLTOALL;
  const int64_t splits[] = {1};
  request.splits = splits;
  request.split_count = 1;
  EXPECT_NE(refused(request).find("splits"), std::string::npos);
  const std::string detail(2000, 'd');
  request = Sum("w");
  request.detail = detail.c_str();
  EXPECT_NE(refused(request).find("detail"), std::string::npos);
  EXPECT_EQ(Run(Sum("w")), BYTEPS_OK) << error_.message;
  byteps_close(session_);
  EXPECT_EQ(calls, 0);
}

TEST_F(CApi, AProcessSetCanBeUsedFromAddToRemove) {
  const int32_t ranks[] = {0};
  ASSERT_EQ(byteps_add_process_set(session_, ranks, 1, 3, &error_), BYTEPS_OK) << error_.message;
  byteps_request request = Sum("w");
  request.process_set = 3;
  EXPECT_EQ(Run(request), BYTEPS_OK) << error_.message;
  ASSERT_EQ(byteps_remove_process_set(session_, 3, &error_), BYTEPS_OK) << error_.message;
  EXPECT_EQ(Run(request), BYTEPS_INVALID_ARGUMENT);
}

TEST_F(CApi, WhatThisLibraryCannotReachIsRefused) {
  byteps_request request = Sum("w");
  request.memory = static_cast<byteps_memory>(9);
  EXPECT_EQ(Run(request), BYTEPS_INVALID_ARGUMENT);
  EXPECT_NE(TextOf(error_).find("is 9"), std::string::npos) << error_.message;
  request = Sum("w");
  request.device = 1;
  EXPECT_EQ(Run(request), BYTEPS_INVALID_ARGUMENT);
  request = Sum("w");
  request.stream = &request;
  EXPECT_EQ(Run(request), BYTEPS_INVALID_ARGUMENT);
  EXPECT_NE(TextOf(error_).find("stream"), std::string::npos) << error_.message;
  request = Sum("w");
  request.reserved = 1;
  EXPECT_EQ(Run(request), BYTEPS_INVALID_ARGUMENT);
  EXPECT_NE(TextOf(error_).find("reserved"), std::string::npos) << error_.message;
  EXPECT_EQ(Run(Sum("w")), BYTEPS_OK) << error_.message;
}

TEST_F(CApi, ASizeThatCannotBeIsRefusedBeforeAnythingIsDone) {
  byteps_request request = Sum("w");
  for (size_t size : {size_t{0}, size_t{63}, size_t{1} << 40}) {
    request.struct_size = size;
    EXPECT_EQ(Run(request), BYTEPS_INVALID_ARGUMENT);
    EXPECT_NE(TextOf(error_).find("sizeof(byteps_request)"), std::string::npos) << error_.message;
  }
  request = Sum("w");
  byteps_handle handle = 0;
  ASSERT_EQ(byteps_start(session_, &request, &handle, &error_), BYTEPS_OK);
  byteps_result result{};
  result.struct_size = 0;
  EXPECT_EQ(byteps_get_result(session_, handle, &result, &error_), BYTEPS_INVALID_ARGUMENT);
  EXPECT_NE(TextOf(error_).find("byteps_result is 0"), std::string::npos) << error_.message;
  byteps_release(session_, handle);
  byteps_speed speed{};
  speed.struct_size = 8;
  EXPECT_EQ(byteps_get_speed(session_, &speed), BYTEPS_INVALID_ARGUMENT);
  // The library can write the text to stderr only.
  byteps_error odd{};
  odd.struct_size = 0;
  odd.code = BYTEPS_EVICTED;
  EXPECT_EQ(byteps_declare(session_, "w", &odd), BYTEPS_INVALID_ARGUMENT);
  EXPECT_EQ(odd.code, BYTEPS_EVICTED);
}

TEST_F(CApi, TheSumsOfAJobOfOneDependOnNothingElse) {
  byteps_sums sums{};
  ASSERT_EQ(byteps_get_sums(session_, &sums, &error_), BYTEPS_OK) << error_.message;
  EXPECT_EQ(sums.bits, BYTEPS_SUM_BITS_RANKS);
  EXPECT_STREQ(sums.text, "sums depend on ranks alone");
  byteps_request request = Sum("w");
  byteps_handle handle = 0;
  ASSERT_EQ(byteps_start(session_, &request, &handle, &error_), BYTEPS_OK);
  byteps_result result{};
  ASSERT_EQ(byteps_get_result(session_, handle, &result, &error_), BYTEPS_OK);
  EXPECT_EQ(result.flags, BYTEPS_RESULT_ANY_LAYOUT);
  byteps_release(session_, handle);
  EXPECT_EQ(byteps_get_sums(session_, nullptr, &error_), BYTEPS_INVALID_ARGUMENT);
  sums.struct_size = 8;
  EXPECT_EQ(byteps_get_sums(session_, &sums, &error_), BYTEPS_INVALID_ARGUMENT);
}

// The options of the order count, too: machines of three are blocks with groups of three.
TEST_F(CApi, TheForecastOfSumsHasTheOptionsOfTheJob) {
  const auto foresee = [&](const char* group, const char* same_bits) {
    const char* const settings[] = {
        "role=worker",  "num_worker=2", "local_sizes=3,3", "local_size=3",
        "local_rank=0", "worker_id=0",  "num_server=1",    "root_host=foresee.invalid",
        "root_port=1",  group,          same_bits};
    byteps_sums sums{};
    EXPECT_EQ(byteps_foresee_sums(settings, std::size(settings), &sums, &error_), BYTEPS_OK)
        << error_.message;
    return sums.bits;
  };
  EXPECT_EQ(foresee("sum_group=1", "same_bits=0"), BYTEPS_SUM_BITS_PLACEMENT);
  EXPECT_EQ(foresee("sum_group=3", "same_bits=0"), BYTEPS_SUM_BITS_MACHINES);
  EXPECT_EQ(foresee("sum_group=3", "same_bits=1"), BYTEPS_SUM_BITS_RANKS);
}

TEST_F(CApi, WhatIsKnownOfAJobOfOne) {
  byteps_job_info info{};
  ASSERT_EQ(byteps_get_job_info(session_, &info, &error_), BYTEPS_OK) << error_.message;
  EXPECT_EQ(info.proof, BYTEPS_PROOF_ONE_USER);
  EXPECT_EQ(info.takes_objects, 1);
  EXPECT_EQ(info.operation_limit_ms, 1800 * 1000) << "as long as torch.distributed waits";
  info.struct_size = 8;
  EXPECT_EQ(byteps_get_job_info(session_, &info, &error_), BYTEPS_INVALID_ARGUMENT);
  EXPECT_EQ(byteps_get_job_info(session_, nullptr, &error_), BYTEPS_INVALID_ARGUMENT);
  EXPECT_EQ(byteps_get_job_info(nullptr, &info, &error_), BYTEPS_INVALID_ARGUMENT);
  byteps_request request = Sum("w");
  request.limit_ms = -1;
  EXPECT_EQ(Run(request), BYTEPS_INVALID_ARGUMENT);
  EXPECT_NE(TextOf(error_).find("the limit of 'w' is -1 ms"), std::string::npos) << error_.message;
  request.limit_ms = INT64_MAX;
  EXPECT_EQ(Run(request), BYTEPS_OK) << error_.message;
}

TEST_F(CApi, AnErrorAsSmallAsAnOlderProgramsIsNotOverrun) {
  struct {
    size_t struct_size = 64;
    byteps_code code = BYTEPS_OK;
    char message[52];
    char beyond[8] = "beyond";
  } older;
  const auto code = byteps_declare(session_, "", reinterpret_cast<byteps_error*>(&older));
  EXPECT_EQ(code, BYTEPS_INVALID_ARGUMENT);
  EXPECT_EQ(older.code, BYTEPS_INVALID_ARGUMENT);
  EXPECT_LT(std::strlen(older.message), sizeof(older.message));
  EXPECT_STREQ(older.beyond, "beyond");
}

TEST_F(CApi, MemoryForTensorsIsThereAlsoWhereNobodySharesIt) {
  byteps_shared_memory memory{};
  ASSERT_EQ(byteps_alloc_shared(session_, 1000, &memory, &error_), BYTEPS_OK) << error_.message;
  EXPECT_EQ(memory.bytes, 1000u);
  EXPECT_EQ(memory.shared, 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data) % 64, 0u);
  auto* values = static_cast<float*>(memory.data);
  EXPECT_EQ(values[249], 0);
  values[0] = 5;
  byteps_request request = Sum("shared");
  request.input = request.output = memory.data;
  EXPECT_EQ(Run(request), BYTEPS_OK);
  EXPECT_EQ(values[0], 5);
  byteps_free_shared(session_, data_);
  byteps_free_shared(session_, nullptr);
  byteps_free_shared(nullptr, memory.data);
  byteps_close(session_);
  values[0] = 6;  // the memory outlives the session
  byteps_free_shared(session_, memory.data);
  byteps_free_shared(session_, memory.data);
  EXPECT_EQ(byteps_alloc_shared(session_, 1, &memory, &error_), BYTEPS_SHUTDOWN);
}

TEST_F(CApi, MemoryThatCannotBeIsAnError) {
  byteps_shared_memory memory{};
  EXPECT_EQ(byteps_alloc_shared(nullptr, 1, &memory, &error_), BYTEPS_INVALID_ARGUMENT);
  EXPECT_EQ(byteps_alloc_shared(session_, 1, nullptr, &error_), BYTEPS_INVALID_ARGUMENT);
  EXPECT_EQ(byteps_alloc_shared(session_, SIZE_MAX, &memory, &error_), BYTEPS_EXHAUSTED);
  EXPECT_EQ(memory.data, nullptr);
  memory.struct_size = 3;
  EXPECT_EQ(byteps_alloc_shared(session_, 1, &memory, &error_), BYTEPS_INVALID_ARGUMENT);
}

TEST_F(CApi, ATimelineHasOperationsWhoseEndIsToldToAFunction) {
  byteps_timeline_entry entries[2] = {};
  size_t count = 7;
  uint64_t lost = 7;
  byteps_request request = Sum("told");
  request.on_complete = [](void*, byteps_handle, byteps_code) {};
  ASSERT_EQ(Run(request), BYTEPS_OK);
  EXPECT_EQ(byteps_take_timeline(session_, entries, 2, &count, &lost, &error_), BYTEPS_OK);
  EXPECT_EQ(count, 0u) << "it is off";
  ASSERT_EQ(byteps_set_timeline(session_, 1, &error_), BYTEPS_OK) << error_.message;
  ASSERT_EQ(Run(request), BYTEPS_OK);
  ASSERT_EQ(Run(Sum("awaited")), BYTEPS_OK);
  ASSERT_EQ(byteps_take_timeline(session_, entries, 2, &count, &lost, &error_), BYTEPS_OK);
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(lost, 0u);
  EXPECT_STREQ(entries[0].name, "told");
  EXPECT_EQ(entries[0].kind, BYTEPS_ENTRY_OPERATION);
  EXPECT_EQ(entries[0].op, BYTEPS_SUM);
  EXPECT_GT(entries[0].at_ns[0], 0);
  EXPECT_GE(entries[0].at_ns[1], entries[0].at_ns[0]);
  EXPECT_EQ(entries[0].struct_size, sizeof(byteps_timeline_entry));
  ASSERT_EQ(byteps_set_timeline(session_, 0, &error_), BYTEPS_OK);
  ASSERT_EQ(Run(request), BYTEPS_OK);
  EXPECT_EQ(byteps_take_timeline(session_, entries, 2, &count, nullptr, &error_), BYTEPS_OK);
  EXPECT_EQ(count, 0u);
}

TEST_F(CApi, ATimelineThatCannotBeTakenIsAnError) {
  byteps_timeline_entry entry{};
  size_t count = 0;
  EXPECT_EQ(byteps_set_timeline(nullptr, 1, &error_), BYTEPS_INVALID_ARGUMENT);
  EXPECT_EQ(byteps_take_timeline(session_, &entry, 1, nullptr, nullptr, &error_),
            BYTEPS_INVALID_ARGUMENT);
  EXPECT_EQ(byteps_take_timeline(session_, nullptr, 1, &count, nullptr, &error_),
            BYTEPS_INVALID_ARGUMENT);
  EXPECT_EQ(byteps_take_timeline(session_, &entry, 0, &count, nullptr, &error_), BYTEPS_OK);
  entry.struct_size = 3;
  EXPECT_EQ(byteps_take_timeline(session_, &entry, 1, &count, nullptr, &error_),
            BYTEPS_INVALID_ARGUMENT);
}

TEST_F(CApi, TheLibrarySaysWhatItIs) {
  EXPECT_EQ(byteps_interface(), BYTEPS_INTERFACE);
  EXPECT_EQ(std::string(byteps_version()), std::to_string(BYTEPS_VERSION_MAJOR) + "." +
                                               std::to_string(BYTEPS_VERSION_MINOR) + "." +
                                               std::to_string(BYTEPS_VERSION_PATCH));
}

TEST_F(CApi, AfterShutdownNothingBegins) {
  byteps_request request = Sum("w");
  byteps_handle handle = 0;
  ASSERT_EQ(byteps_start(session_, &request, &handle, &error_), BYTEPS_OK);
  EXPECT_EQ(byteps_shutdown(session_, &error_), BYTEPS_OK);
  byteps_handle second = 7;
  EXPECT_EQ(byteps_start(session_, &request, &second, &error_), BYTEPS_SHUTDOWN);
  EXPECT_EQ(second, 0u);
  EXPECT_EQ(byteps_poll(session_, handle), BYTEPS_DONE) << "what is complete may be looked at";
  byteps_result result{};
  EXPECT_EQ(byteps_get_result(session_, handle, &result, &error_), BYTEPS_OK);
  EXPECT_EQ(result.members, 1u);
  EXPECT_EQ(byteps_shutdown(session_, &error_), BYTEPS_OK);
}

TEST_F(CApi, AClosedSessionIsFoundClosed) {
  byteps_request request = Sum("w");
  byteps_handle handle = 0;
  ASSERT_EQ(byteps_start(session_, &request, &handle, &error_), BYTEPS_OK);
  byteps_close(session_);
  EXPECT_EQ(byteps_poll(session_, handle), BYTEPS_UNKNOWN);
  EXPECT_EQ(byteps_wait(session_, handle, -1, &error_), BYTEPS_SHUTDOWN);
  EXPECT_EQ(byteps_start(session_, &request, &handle, &error_), BYTEPS_SHUTDOWN);
  byteps_result result{};
  EXPECT_EQ(byteps_get_result(session_, handle, &result, &error_), BYTEPS_SHUTDOWN);
  EXPECT_EQ(byteps_give_up(session_, "why", &error_), BYTEPS_SHUTDOWN);
  EXPECT_EQ(byteps_shutdown(session_, &error_), BYTEPS_SHUTDOWN);
  byteps_release(session_, handle);
  EXPECT_EQ(byteps_rank(session_), 0);
  EXPECT_EQ(byteps_machine(session_), 0);
  EXPECT_EQ(byteps_machine_size(session_, 0), 1);
  for (int32_t none : {-1, 1}) EXPECT_EQ(byteps_machine_size(session_, none), -1);
  byteps_close(session_);
}

TEST_F(CApi, CloseRacesWithEverything) {
  std::atomic<int> rounds = 0;
  auto use = [&](const std::string& name) {
    float data[4] = {1, 2, 3, 4};
    byteps_request request = Sum(name.c_str());
    request.input = request.output = data;
    for (byteps_code code = BYTEPS_OK; code == BYTEPS_OK; ++rounds) {
      byteps_handle handle = 0;
      byteps_error error{};
      code = byteps_start(session_, &request, &handle, &error);
      if (code != BYTEPS_OK) {
        EXPECT_EQ(code, BYTEPS_SHUTDOWN) << error.message;
        return;
      }
      byteps_poll(session_, handle);
      code = byteps_wait(session_, handle, -1, &error);
      byteps_result result{};
      const byteps_code result_code = byteps_get_result(session_, handle, &result, nullptr);
      EXPECT_TRUE(result_code == BYTEPS_OK || result_code == BYTEPS_SHUTDOWN) << result_code;
      size_t count = 0;
      byteps_members(session_, nullptr, 0, &count, nullptr);
      byteps_release(session_, handle);
    }
  };
  std::vector<std::thread> users;
  for (int i = 0; i < 3; ++i) users.emplace_back(use, "w" + std::to_string(i));
  while (rounds < 100) std::this_thread::yield();
  std::thread other([&] { byteps_close(session_); });
  byteps_close(session_);
  EXPECT_EQ(byteps_poll(session_, 1), BYTEPS_UNKNOWN);
  other.join();
  for (std::thread& user : users) user.join();
}

TEST_F(CApi, NamesHaveALimit) {
  const std::string longest(4096, 'n');
  EXPECT_EQ(Run(Sum(longest.c_str())), BYTEPS_OK) << error_.message;
  EXPECT_EQ(byteps_declare(session_, longest.c_str(), &error_), BYTEPS_OK);
  for (const std::string& name : {std::string(), longest + "n"}) {
    EXPECT_EQ(Run(Sum(name.c_str())), BYTEPS_INVALID_ARGUMENT);
    EXPECT_EQ(byteps_declare(session_, name.c_str(), &error_), BYTEPS_INVALID_ARGUMENT);
  }
  EXPECT_EQ(byteps_set_stuck(session_, longest.c_str(), &error_), BYTEPS_OK);
  EXPECT_EQ(byteps_set_stuck(session_, (longest + "n").c_str(), &error_), BYTEPS_INVALID_ARGUMENT);
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

// Otherwise a child that ends by exit() would close the parent's connections.
TEST_F(CApi, ACopyMadeByForkClosesNothing) {
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    byteps_handle handle = 0;
    byteps_request request = Sum("w");
    const bool refused =
        byteps_start(session_, &request, &handle, &error_) == BYTEPS_INVALID_ARGUMENT &&
        TextOf(error_).find("fork") != std::string::npos &&
        byteps_shutdown(session_, nullptr) == BYTEPS_INVALID_ARGUMENT &&
        byteps_poll(session_, 1) == BYTEPS_UNKNOWN && byteps_rank(session_) == 0;
    byteps_release(session_, 1);
    byteps_close(session_);
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(Run(Sum("w")), BYTEPS_OK) << error_.message;
}

}  // namespace
