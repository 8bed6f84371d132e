// The C interface with tensors in device memory, over the stand-in for the CUDA driver: what is
// refused, what a device is, and what happens while an input is not ready.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "byteps/device.h"
#include "tests/capi_job.h"
#include "tests/cuda_standin/nvml_standin_for_test.h"
#include "tests/cuda_standin/standin_for_test.h"
#include "tests/cuda_standin/user_memory.h"

namespace byteps::standin {
namespace {

using byteps::testing::CApiJob;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kCount = 1000;
constexpr size_t kFloats = kCount * sizeof(float);
const int64_t kShape[] = {kCount};

std::string OldDriver() {
  const auto folder = std::filesystem::path(LibraryPath()).parent_path();
  return (folder / "libbyteps_cuda_standin_old.so").string();
}

byteps_request SumOf(const char* name, void* memory) {
  byteps_request request{};
  request.name = name;
  request.op = BYTEPS_SUM;
  request.dtype = BYTEPS_FLOAT32;
  request.shape = kShape;
  request.dimensions = 1;
  request.input = request.output = memory;
  return request;
}

byteps_request SumOf(const char* name, const UserMemory& memory, CUstream stream) {
  byteps_request request = SumOf(name, memory.data());
  request.memory = BYTEPS_MEMORY_DEVICE;
  request.stream = stream;
  return request;
}

// A session whose library finds this driver; alone in its job.
class AloneWith {
 public:
  explicit AloneWith(const std::string& library, std::vector<const char*> settings = {}) {
    const std::string setting = "cuda_library=" + library;
    settings.push_back(setting.c_str());
    byteps_error error{};
    EXPECT_EQ(byteps_open(settings.data(), settings.size(), &session_, &error), BYTEPS_OK)
        << error.message;
  }
  ~AloneWith() { byteps_close(session_); }
  AloneWith(const AloneWith&) = delete;
  AloneWith& operator=(const AloneWith&) = delete;
  byteps_session* get() const { return session_; }

  // Expects that the request is refused with such a text, and that nothing was accepted.
  void ExpectRefused(const byteps_request& request, const std::string& text) {
    byteps_handle handle = 7;
    byteps_error error{};
    EXPECT_EQ(byteps_start(session_, &request, &handle, &error), BYTEPS_INVALID_ARGUMENT) << text;
    EXPECT_NE(std::string(error.message).find(text), std::string::npos) << error.message;
    EXPECT_EQ(handle, 0u);
  }

 private:
  byteps_session* session_ = nullptr;
};

byteps_code InfoOf(const std::string& library, int32_t device, byteps_device_info* info,
                   std::string* text) {
  const std::string setting = "cuda_library=" + library;
  const char* const settings[] = {setting.c_str()};
  byteps_error error{};
  const byteps_code code = byteps_get_device_info(settings, 1, device, info, &error);
  *text = error.message;
  return code;
}

class DeviceApi : public ::testing::Test {
 protected:
  byteps_code Wait(byteps_session* session, byteps_handle handle, int64_t limit_ms = 60000) {
    return byteps_wait(session, handle, limit_ms, &error_);
  }
  byteps_handle Start(byteps_session* session, const byteps_request& request) {
    byteps_handle handle = 0;
    EXPECT_EQ(byteps_start(session, &request, &handle, &error_), BYTEPS_OK) << error_.message;
    return handle;
  }

  const NothingLeft nothing_left_;
  const UserContext context_;
  byteps_error error_{};
};

TEST_F(DeviceApi, ADeviceSaysWhatItIs) {
  std::string text;
  byteps_device_info info[2] = {};
  for (int32_t device = 0; device < STAND_IN_DEVICES; ++device) {
    ASSERT_EQ(InfoOf(LibraryPath(), device, &info[device], &text), BYTEPS_OK) << text;
    EXPECT_EQ(info[device].count, STAND_IN_DEVICES);
    EXPECT_NE(std::string(info[device].name).find("tand-in"), std::string::npos);
    EXPECT_NE(std::string(info[device].address).find(':'), std::string::npos);
    EXPECT_NE(std::string(info[device].driver).find('.'), std::string::npos);
  }
  EXPECT_STRNE(info[0].uuid, info[1].uuid);
  EXPECT_EQ(InfoOf(LibraryPath(), STAND_IN_DEVICES, &info[0], &text), BYTEPS_INVALID_ARGUMENT);
  EXPECT_NE(text.find("no device 2"), std::string::npos) << text;
  EXPECT_EQ(info[0].count, 0) << "an error leaves zeros";
}

TEST(NcclApi, SaysWhichNcclThereIsOrWhyNone) {
  auto look = [](const std::string& library, byteps_nccl_info* info) {
    const std::string setting = "nccl_library=" + library;
    const char* const settings[] = {setting.c_str()};
    byteps_error error{};
    const byteps_code code = byteps_get_nccl_info(settings, 1, info, &error);
    EXPECT_EQ(code == BYTEPS_OK, error.message[0] == '\0');
    return code;
  };
  byteps_nccl_info info{};
  ASSERT_EQ(look(BYTEPS_NCCL_STANDIN, &info), BYTEPS_OK);
  EXPECT_EQ(info.version, 22100);
  EXPECT_STREQ(info.text, "2.21.0");
  EXPECT_STREQ(info.file, BYTEPS_NCCL_STANDIN);
  EXPECT_EQ(look("/nowhere/libnccl.so.2", &info), BYTEPS_UNAVAILABLE);
  EXPECT_EQ(info.version, 0) << "an error leaves zeros";
  EXPECT_EQ(look(BYTEPS_NCCL_STANDIN, nullptr), BYTEPS_INVALID_ARGUMENT);
}

TEST_F(DeviceApi, WhyThereIsNoDeviceIsSaid) {
  std::string text;
  byteps_device_info info{};
  EXPECT_EQ(InfoOf("/nowhere/libcuda.so.1", 0, &info, &text), BYTEPS_UNAVAILABLE);
  EXPECT_NE(text.find("/nowhere/libcuda.so.1"), std::string::npos) << text;
  EXPECT_EQ(InfoOf(OldDriver(), 0, &info, &text), BYTEPS_UNAVAILABLE);
  EXPECT_NE(text.find("since version"), std::string::npos) << text;
  stand_in_fail("cuInit", 1, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 1);
  EXPECT_EQ(InfoOf(LibraryPath(), 0, &info, &text), BYTEPS_UNAVAILABLE);
  EXPECT_NE(text.find("does not start"), std::string::npos) << text;
  EXPECT_NE(text.find("803"), std::string::npos) << text;
}

// Returns what the library foresees of the sums on GPUs, for ranks of two machines, or its error.
std::string Foreseen(byteps_code expected, const std::string& nvml, const char* way) {
  const std::string library = "nvml_library=" + nvml;
  const std::string sums = std::string("device_sums=") + way;
  const std::vector<const char*> settings = {
      "role=worker",  "num_worker=2",     "worker_id=0", "local_size=2",  "local_rank=0",
      "num_server=1", "root_host=x.test", "root_port=1", library.c_str(), sums.c_str()};
  byteps_device_sums found{};
  byteps_error error{};
  EXPECT_EQ(byteps_foresee_device_sums(settings.data(), settings.size(), &found, &error), expected)
      << error.message;
  return expected == BYTEPS_OK ? found.text : error.message;
}

TEST_F(DeviceApi, TheWayOfSumsIsForeseen) {
  stand_in_nvml_reset();
  EXPECT_THAT(Foreseen(BYTEPS_OK, NvmlPath(), "auto"),
              AllOf(HasSubstr("sum in the window"), HasSubstr("not measured")));
  EXPECT_THAT(Foreseen(BYTEPS_OK, NvmlPath(), "window"), HasSubstr("as BYTEPS_DEVICE_SUMS says"));
  EXPECT_THAT(Foreseen(BYTEPS_UNAVAILABLE, "/nowhere/libnvidia-ml.so.1", "auto"),
              HasSubstr("/nowhere/libnvidia-ml.so.1"));
  EXPECT_THAT(Foreseen(BYTEPS_OK, NvmlPath(), "nccl"), HasSubstr("sum in the window"))
      << "the GPUs do not reach each other";
  stand_in_nvml_machine(2, 0, 0);
  EXPECT_THAT(Foreseen(BYTEPS_OK, NvmlPath(), "nccl"),
              AllOf(HasSubstr("NCCL over NVLink among all GPUs"), HasSubstr("count as equal")));
  EXPECT_EQ(stand_in_nvml_started(), 0);
}

TEST_F(DeviceApi, TheLogSaysTheWayWhereSomebodyReadsIt) {
  stand_in_nvml_reset();
  const std::string nvml = "nvml_library=" + NvmlPath();
  for (const char* level : {"log_level=info", "log_level=warning"}) {
    ::testing::internal::CaptureStdout();
    {
      AloneWith session(LibraryPath(), {nvml.c_str(), level});
      UserMemory memory(kFloats);
      const UserStream stream;
      const byteps_handle sum = Start(session.get(), SumOf("w", memory, stream.get()));
      EXPECT_EQ(Wait(session.get(), sum), BYTEPS_OK) << error_.message;
    }
    const std::string text = ::testing::internal::GetCapturedStdout();
    const bool told = text.find("sums on GPUs: each rank copies for itself") != std::string::npos;
    EXPECT_EQ(told, std::string(level) == "log_level=info") << text;
  }
}

TEST_F(DeviceApi, TheUserMayKeepTheLibraryFromGpus) {
  AloneWith session(LibraryPath(), {"device_sums=host"});
  UserMemory memory(kFloats);
  session.ExpectRefused(SumOf("w", memory, nullptr), "device_sums=host (BYTEPS_DEVICE_SUMS)");
}

TEST_F(DeviceApi, WhatCannotBeginIsRefused) {
  UserMemory memory(kFloats);
  UserMemory other(kFloats);
  const UserStream stream;
  AloneWith session(LibraryPath());
  byteps_request request = SumOf("w", memory, stream.get());
  request.device = STAND_IN_DEVICES;
  session.ExpectRefused(request, "no device 2");
  request.device = -1;
  session.ExpectRefused(request, "no device -1");
  request.device = 1;
  session.ExpectRefused(request, "belongs to cuda:0");
  float of_host[kCount] = {};
  request = SumOf("w", of_host);
  request.memory = BYTEPS_MEMORY_DEVICE;
  session.ExpectRefused(request, "no memory of a GPU");
  request = SumOf("w", memory, stream.get());
  ASSERT_EQ(cuStreamBeginCapture_v2(stream.get(), CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  session.ExpectRefused(request, "call it outside");
  byteps_request beside = SumOf("beside", other, static_cast<CUstream>(BYTEPS_NO_STREAM));
  EXPECT_EQ(Wait(session.get(), Start(session.get(), beside)), BYTEPS_OK) << error_.message;
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(stream.get(), &graph), CUDA_SUCCESS) << "the capture was broken";
  EXPECT_EQ(Wait(session.get(), Start(session.get(), request)), BYTEPS_OK) << error_.message;
}

TEST_F(DeviceApi, WithoutADriverHostMemoryIsAsBefore) {
  UserMemory memory(kFloats);
  AloneWith session("/nowhere/libcuda.so.1");
  session.ExpectRefused(SumOf("w", memory, nullptr), "/nowhere/libcuda.so.1");
  float of_host[kCount] = {};
  EXPECT_EQ(Wait(session.get(), Start(session.get(), SumOf("w", of_host))), BYTEPS_OK);
  AloneWith with_an_old_one(OldDriver());
  with_an_old_one.ExpectRefused(SumOf("w", memory, nullptr), "since version");
}

TEST_F(DeviceApi, AnOperationComesBehindItsStream) {
  AloneWith session(LibraryPath());
  const UserStream stream;
  UserMemory input(kFloats);
  UserMemory output(kFloats);
  stand_in_hold(stream.get());
  input.Write(stream.get(), Bytes(kFloats, 3));
  byteps_request request = SumOf("w", input, stream.get());
  request.output = output.data();
  const byteps_handle handle = Start(session.get(), request);
  EXPECT_EQ(Wait(session.get(), handle, 20), BYTEPS_DEADLINE_EXCEEDED);
  stand_in_let_go(stream.get());
  ASSERT_EQ(Wait(session.get(), handle), BYTEPS_OK) << error_.message;
  EXPECT_EQ(output.Read(), Bytes(kFloats, 3));
  byteps_result result{};
  ASSERT_EQ(byteps_get_result(session.get(), handle, &result, &error_), BYTEPS_OK);
  EXPECT_EQ(result.members, 1u);
  EXPECT_GT(result.ended_ns, result.begun_ns);
}

TEST_F(DeviceApi, AnInputThatIsNeverReadyDoesNotHoldUpTheEnd) {
  CApiJob job(1, {"force_distributed=1", "cuda_library=" + LibraryPath()});
  ASSERT_TRUE(job.Open());
  const UserStream stream;
  UserMemory memory(kFloats);
  stand_in_hold(stream.get());
  const byteps_handle handle = Start(job.session(0), SumOf("w", memory, stream.get()));
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(byteps_shutdown(job.session(0), &error_), BYTEPS_OK) << error_.message;
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(4));
  EXPECT_EQ(Wait(job.session(0), handle, 0), BYTEPS_SHUTDOWN);
  stand_in_let_go(stream.get());
  job.Close();
}

TEST_F(DeviceApi, ASetWithAnOpenOperationStays) {
  AloneWith session(LibraryPath());
  const int32_t ranks[] = {0};
  ASSERT_EQ(byteps_add_process_set(session.get(), ranks, 1, 3, &error_), BYTEPS_OK);
  const UserStream stream;
  UserMemory memory(kFloats);
  stand_in_hold(stream.get());
  byteps_request request = SumOf("w", memory, stream.get());
  request.process_set = 3;
  const byteps_handle handle = Start(session.get(), request);
  EXPECT_EQ(byteps_remove_process_set(session.get(), 3, &error_), BYTEPS_INVALID_ARGUMENT);
  stand_in_let_go(stream.get());
  EXPECT_EQ(Wait(session.get(), handle), BYTEPS_OK) << error_.message;
  EXPECT_EQ(byteps_remove_process_set(session.get(), 3, &error_), BYTEPS_OK) << error_.message;
}

size_t OpenFiles() {
  const auto files = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

TEST_F(DeviceApi, AHundredSessionsLeaveNothing) {
  const UserStream stream;
  UserMemory memory(kFloats);
  size_t files = 0;
  for (int i = 0; i < 100; ++i) {
    AloneWith session(LibraryPath());
    memory.Write(stream.get(), Bytes(kFloats, 0));
    ASSERT_EQ(Wait(session.get(), Start(session.get(), SumOf("w", memory, stream.get()))),
              BYTEPS_OK)
        << error_.message;
    if (i == 0) files = OpenFiles();
    EXPECT_LE(OpenFiles(), files);
    const stand_in_counts held = stand_in_count();
    EXPECT_EQ(held.contexts, 2) << "the user's and the session's";
    EXPECT_LE(held.streams, 3) << "the user's, one down and one up";
    EXPECT_LE(held.pinned_bytes, 4096u) << "one block";
  }
  const stand_in_counts left = stand_in_count();
  EXPECT_EQ(left.contexts, 1);
  EXPECT_EQ(left.streams, 1);
  EXPECT_EQ(left.events, 0);
  EXPECT_EQ(left.pinned_bytes, 0u);
}

// A session that is closed in the middle of copies, whose stream comes to its end later or never.
TEST_F(DeviceApi, ASessionThatIsClosedMeanwhileLeavesNothing) {
  const UserStream stream;
  std::vector<UserMemory> memory;
  for (int i = 0; i < 20; ++i) memory.emplace_back(kFloats);
  for (int round = 0; round < 20; ++round) {
    stand_in_delay(static_cast<uint64_t>(round), 300);
    AloneWith session(LibraryPath());
    for (size_t i = 0; i < memory.size(); ++i) {
      memory[i].Write(stream.get(), Bytes(kFloats, 0));
      Start(session.get(), SumOf(std::to_string(i).c_str(), memory[i], stream.get()));
    }
  }
  const stand_in_counts left = stand_in_count();
  EXPECT_EQ(left.contexts, 1);
  EXPECT_EQ(left.streams, 1);
  EXPECT_EQ(left.events, 0);
  EXPECT_EQ(left.pinned_bytes, 0u);
}

// Two ranks with a server, and device memory on the first one only.
class DeviceApiOfTwo : public DeviceApi {
 protected:
  void SetUp() override { ASSERT_TRUE(job_.Open()); }
  void TearDown() override { job_.Close(); }

  CApiJob job_{2, {"cuda_library=" + LibraryPath(), "local_reduce=0", "heartbeat_timeout_ms=1500"}};
  float of_host_[2][kCount] = {};
};

// Rank 0 waits for "a" and promises to start nothing; but its "b", for which rank 1 waits, begins
// later.
TEST_F(DeviceApiOfTwo, AnOperationThatWaitsForItsInputStillBegins) {
  const UserStream stream;
  UserMemory memory(kFloats);
  stand_in_hold(stream.get());
  const byteps_handle b = Start(job_.session(0), SumOf("b", memory, stream.get()));
  std::thread other([&] {
    byteps_request first = SumOf("b", of_host_[0]);
    byteps_request second = SumOf("a", of_host_[1]);
    for (byteps_request* request : {&first, &second}) {
      byteps_handle handle = 0;
      EXPECT_EQ(byteps_start(job_.session(1), request, &handle, nullptr), BYTEPS_OK);
      EXPECT_EQ(byteps_set_stuck(job_.session(1), request->name, nullptr), BYTEPS_OK);
      byteps_error error{};
      EXPECT_EQ(byteps_wait(job_.session(1), handle, 60000, &error), BYTEPS_OK) << error.message;
    }
  });
  float here[kCount] = {};
  const byteps_handle a = Start(job_.session(0), SumOf("a", here));
  ASSERT_EQ(byteps_set_stuck(job_.session(0), "a", &error_), BYTEPS_OK);
  // The job finds ranks that wait for each other after a second.
  EXPECT_EQ(Wait(job_.session(0), a, 3000), BYTEPS_DEADLINE_EXCEEDED) << error_.message;
  EXPECT_EQ(byteps_poll(job_.session(0), a), BYTEPS_RUNNING);
  stand_in_let_go(stream.get());
  EXPECT_EQ(Wait(job_.session(0), a), BYTEPS_OK) << error_.message;
  EXPECT_EQ(Wait(job_.session(0), b), BYTEPS_OK) << error_.message;
  other.join();
}

// The driver answers nobody for longer than the job waits for a silent process.
TEST_F(DeviceApiOfTwo, ADriverThatStandsStillHoldsUpNoOtherTensor) {
  const UserStream stream;
  UserMemory memory(kFloats);
  memory.Write(stream.get(), Bytes(kFloats, 0));
  stand_in_hold(stream.get());
  const byteps_handle w = Start(job_.session(0), SumOf("w", memory, stream.get()));
  stand_in_let_go(stream.get());
  stand_in_lock();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  byteps_request request = SumOf("w", of_host_[1]);
  byteps_handle far = 0;
  EXPECT_EQ(byteps_start(job_.session(1), &request, &far, &error_), BYTEPS_OK);
  int rounds = 0;
  do {
    float other[2][kCount] = {};
    byteps_request theirs = SumOf("x", other[1]);
    byteps_handle there = 0;
    ASSERT_EQ(byteps_start(job_.session(1), &theirs, &there, &error_), BYTEPS_OK);
    const byteps_handle here = Start(job_.session(0), SumOf("x", other[0]));
    ASSERT_EQ(Wait(job_.session(0), here), BYTEPS_OK) << error_.message;
    ASSERT_EQ(Wait(job_.session(1), there), BYTEPS_OK) << error_.message;
    ++rounds;
  } while (rounds <= 10 || std::chrono::steady_clock::now() < until);
  stand_in_unlock();
  EXPECT_EQ(Wait(job_.session(0), w), BYTEPS_OK) << error_.message;
  EXPECT_EQ(Wait(job_.session(1), far), BYTEPS_OK) << error_.message;
  stand_in_reset();  // the driver gave no pinned memory in time, so "w" may have done without
}

}  // namespace
}  // namespace byteps::standin
