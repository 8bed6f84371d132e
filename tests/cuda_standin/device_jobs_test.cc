// Whole jobs whose tensors lie in device memory, behind the C interface, over the stand-in for the
// CUDA driver: all operations and all types, in the four kinds of job. The bits must be those of
// host memory. DEVICE_SEEDS: the number of jobs of each kind, else 1.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "byteps/device.h"
#include "tests/capi_job.h"
#include "tests/cuda_standin/standin_for_test.h"
#include "tests/cuda_standin/user_memory.h"

namespace byteps::standin {
namespace {

using byteps::testing::CApiJob;

constexpr int kTypes = 10;
constexpr size_t kTypeBytes[kTypes] = {4, 8, 2, 2, 1, 2, 4, 8, 1, 1};

// One operation of a job; the same on all ranks, except for its number of rows.
struct Task {
  std::string name;
  byteps_op op = BYTEPS_SUM;
  byteps_dtype dtype = BYTEPS_FLOAT32;
  byteps_op combine = BYTEPS_SUM;
  int64_t rows = 1;
  int64_t columns = 1;
  int root = 0;
  bool in_place = false;
  bool atomic = false;
  uint64_t seed = 0;

  bool HasOwnRows() const { return op == BYTEPS_ALLGATHER; }
  int64_t RowsOf(int rank) const { return rows + (HasOwnRows() ? rank : 0); }
  size_t BytesOf(int64_t of_rows) const {
    return static_cast<size_t>(of_rows * columns) * kTypeBytes[dtype];
  }
};

std::vector<Task> TasksOf(uint64_t seed, int ranks) {
  std::mt19937_64 random(seed);
  std::vector<Task> tasks;
  for (int op : {0, 1, 2, 3, 4, 5, 6, 8, 9}) {
    for (int type = 0; type < kTypes; ++type) {
      Task task;
      task.name = "op " + std::to_string(op) + " type " + std::to_string(type);
      task.op = static_cast<byteps_op>(op);
      task.dtype = static_cast<byteps_dtype>(type);
      task.combine = static_cast<byteps_op>(random() % 5);
      task.columns = std::vector<int64_t>{1, 3, 250}[random() % 3];
      task.rows = ranks * std::vector<int64_t>{1, 10, 60}[random() % 3];
      task.root = static_cast<int>(random() % static_cast<uint64_t>(ranks));
      task.in_place = op <= BYTEPS_BROADCAST && random() % 2 == 0;
      task.atomic = op <= BYTEPS_PRODUCT && random() % 4 == 0;
      task.seed = random();
      tasks.push_back(task);
    }
  }
  return tasks;
}

// Values of the type, of which floats are finite and small.
Bytes InputOf(const Task& task, int rank) {
  const size_t width = kTypeBytes[task.dtype];
  Bytes bytes(task.BytesOf(task.RowsOf(rank)));
  std::mt19937 random(static_cast<uint32_t>(task.seed) + static_cast<uint32_t>(rank));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  for (size_t at = width - 1; at < bytes.size(); at += width) {
    if (task.dtype <= BYTEPS_BFLOAT16) bytes[at] &= 0xbf;  // the exponent's first bit
    if (task.dtype == BYTEPS_BOOL) bytes[at] &= 1;
  }
  return bytes;
}

size_t OutputBytes(const Task& task, int rank, int ranks) {
  if (task.op == BYTEPS_ALLGATHER || task.op == BYTEPS_ALLTOALL) return 0;
  if (task.op != BYTEPS_REDUCESCATTER) return task.BytesOf(task.rows);
  return task.BytesOf(task.rows / ranks + (rank < task.rows % ranks ? 1 : 0));
}

// The end of an operation on one rank.
struct End {
  byteps_code code = BYTEPS_INTERNAL;
  Bytes output;
  Bytes gathered;
  friend bool operator==(const End&, const End&) = default;
};

byteps_request RequestOf(const Task& task, const int64_t (&shape)[2]) {
  byteps_request request{};
  request.name = task.name.c_str();
  request.op = task.op;
  request.dtype = task.dtype;
  request.combine = task.op == BYTEPS_REDUCESCATTER ? task.combine : BYTEPS_SUM;
  request.shape = shape;
  request.dimensions = 2;
  request.root_rank = task.op == BYTEPS_BROADCAST ? task.root : 0;
  request.atomic = task.atomic ? 1 : 0;
  return request;
}

Bytes GatheredOf(byteps_session* session, byteps_handle handle) {
  byteps_result result{};
  EXPECT_EQ(byteps_get_result(session, handle, &result, nullptr), BYTEPS_OK);
  const auto* data = static_cast<const uint8_t*>(result.data);
  return {data, data + result.bytes};
}

// One rank, with its tensors in the host's memory or in a device's.
class Rank {
 public:
  Rank(CApiJob& job, int rank, int ranks, bool on_device)
      : session_(job.session(rank)), rank_(rank), ranks_(ranks), device_(rank % STAND_IN_DEVICES) {
    if (!on_device) return;
    context_.emplace(device_);
    stream_.emplace();
  }

  std::vector<End> Run(const std::vector<Task>& tasks) {
    std::vector<Started> started;
    started.reserve(tasks.size());
    for (const Task& task : tasks) started.push_back(Start(task));
    std::vector<End> ends;
    for (Started& one : started) ends.push_back(Finish(one));
    return ends;
  }

 private:
  struct Started {
    byteps_code code = BYTEPS_INTERNAL;
    byteps_handle handle = 0;
    Bytes input;
    Bytes output;
    std::optional<UserMemory> of_input;
    std::optional<UserMemory> of_output;
    bool in_place = false;
  };

  // A third of the inputs is there, others come later: in a stream, or in the default stream.
  void PutOnDevice(const Task& task, Started& started, byteps_request& request) {
    started.of_input.emplace(started.input.size());
    if (!task.in_place) started.of_output.emplace(started.output.size());
    request.memory = BYTEPS_MEMORY_DEVICE;
    request.device = device_;
    request.stream = task.seed % 3 == 0   ? BYTEPS_NO_STREAM
                     : task.seed % 3 == 1 ? nullptr
                                          : stream_->get();
    if (request.stream == BYTEPS_NO_STREAM) {
      started.of_input->Set(started.input);
    } else {
      started.of_input->Write(static_cast<CUstream>(request.stream), started.input);
    }
    request.input = started.of_input->data();
    request.output = task.in_place ? started.of_input->data() : started.of_output->data();
  }

  Started Start(const Task& task) {
    Started started;
    started.in_place = task.in_place;
    started.input = InputOf(task, rank_);
    started.output.resize(task.in_place ? 0 : OutputBytes(task, rank_, ranks_));
    const int64_t shape[2] = {task.RowsOf(rank_), task.columns};
    byteps_request request = RequestOf(task, shape);
    if (context_.has_value()) {
      PutOnDevice(task, started, request);
    } else {
      request.input = started.input.data();
      request.output = task.in_place ? started.input.data() : started.output.data();
    }
    byteps_error error{};
    started.code = byteps_start(session_, &request, &started.handle, &error);
    EXPECT_TRUE(started.code == BYTEPS_OK || started.code == BYTEPS_INVALID_ARGUMENT)
        << error.message;
    return started;
  }

  End Finish(Started& started) {
    if (started.handle == 0) return {started.code, {}, {}};
    byteps_error error{};
    End end{byteps_wait(session_, started.handle, 60000, &error), {}, {}};
    EXPECT_EQ(end.code, BYTEPS_OK) << error.message;
    if (end.code == BYTEPS_OK) end.gathered = GatheredOf(session_, started.handle);
    if (!context_.has_value()) {
      end.output = started.in_place ? started.input : started.output;
    } else {
      end.output = started.in_place ? started.of_input->Read() : started.of_output->Read();
    }
    byteps_release(session_, started.handle);
    return end;
  }

  byteps_session* const session_;
  const int rank_;
  const int ranks_;
  const int device_;
  std::optional<UserContext> context_;
  std::optional<UserStream> stream_;
};

struct Kind {
  const char* name;
  CApiJob::Shape shape;
};

void PrintTo(const Kind& kind, std::ostream* to) { *to << kind.name; }

class DeviceJobs : public ::testing::TestWithParam<Kind> {
 protected:
  static std::vector<std::vector<End>> RunAll(CApiJob& job, const std::vector<Task>& tasks,
                                              bool on_device) {
    const int ranks = GetParam().shape.ranks();
    std::vector<std::vector<End>> ends(static_cast<size_t>(ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        ends[static_cast<size_t>(rank)] = Rank(job, rank, ranks, on_device).Run(tasks);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return ends;
  }
};

TEST_P(DeviceJobs, AllOperationsAndTypesHaveTheBitsOfHostMemory) {
  const char* const asked = std::getenv("DEVICE_SEEDS");
  const uint64_t seeds = asked == nullptr ? 1 : std::strtoull(asked, nullptr, 10);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const NothingLeft nothing_left;
    stand_in_delay(seed, 200);
    std::vector<std::string> settings = {"cuda_library=" + LibraryPath()};
    if (GetParam().shape.local_size > 1) settings.emplace_back("local_reduce=1");
    CApiJob job(GetParam().shape, settings);
    ASSERT_TRUE(job.Open());
    const std::vector<Task> tasks = TasksOf(seed, GetParam().shape.ranks());
    const auto expected = RunAll(job, tasks, false);
    const auto ends = RunAll(job, tasks, true);
    for (size_t rank = 0; rank < ends.size(); ++rank) {
      for (size_t i = 0; i < tasks.size(); ++i) {
        EXPECT_EQ(ends[rank][i].code, expected[rank][i].code) << tasks[i].name;
        EXPECT_TRUE(ends[rank][i] == expected[rank][i]) << tasks[i].name << " on rank " << rank;
      }
    }
    job.Close();
  }
}

// One rank has no input: all ranks get its error, and the name works again.
class DeviceJobsWithoutInput : public DeviceJobs {
 protected:
  // Carries out an operation whose input the last rank has on the device, and the others have in
  // the host's memory. `limit_ms`: not 0: the stream never comes to the input.
  void Run(CApiJob& job, byteps_op op, int64_t limit_ms, byteps_code code,
           const std::string& text) {
    const int ranks = GetParam().shape.ranks();
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        std::optional<UserContext> context;
        std::optional<UserStream> stream;
        std::optional<UserMemory> memory;
        std::vector<float> of_host(kElements, 1);
        const int64_t shape[] = {kElements};
        byteps_request request{};
        request.name = "w";
        request.op = op;
        request.dtype = BYTEPS_FLOAT32;
        request.shape = shape;
        request.dimensions = 1;
        request.input = request.output = of_host.data();
        if (rank == ranks - 1) {
          context.emplace();
          stream.emplace();
          memory.emplace(kElements * sizeof(float));
          memory->Set(Bytes(kElements * sizeof(float), 0));
          request.memory = BYTEPS_MEMORY_DEVICE;
          request.input = request.output = memory->data();
          request.stream = stream->get();
          request.limit_ms = limit_ms;
          if (limit_ms != 0) stand_in_hold(stream->get());
        }
        byteps_handle handle = 0;
        byteps_error error{};
        EXPECT_EQ(byteps_start(job.session(rank), &request, &handle, &error), BYTEPS_OK)
            << error.message;
        EXPECT_EQ(byteps_wait(job.session(rank), handle, 60000, &error), code) << error.message;
        EXPECT_NE(std::string(error.message).find(text), std::string::npos) << error.message;
        byteps_release(job.session(rank), handle);
        if (request.limit_ms != 0) stand_in_let_go(stream->get());
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  std::string Who() const {
    return "rank " + std::to_string(GetParam().shape.ranks() - 1) +
           " has no input for tensor 'w': ";
  }

  static constexpr int64_t kElements = 40000;
};

TEST_P(DeviceJobsWithoutInput, ACopyThatFailsOrIsLateIsTheErrorOfAllRanks) {
  const NothingLeft nothing_left;
  std::vector<std::string> settings = {"cuda_library=" + LibraryPath()};
  if (GetParam().shape.local_size > 1) settings.emplace_back("local_reduce=1");
  CApiJob job(GetParam().shape, settings);
  ASSERT_TRUE(job.Open());
  for (byteps_op op : {BYTEPS_SUM, BYTEPS_ALLGATHER, BYTEPS_BROADCAST}) {
    SCOPED_TRACE("op " + std::to_string(op));
    Run(job, op, 0, BYTEPS_OK, "");
    stand_in_fail("cuMemcpyAsync", 1, CUDA_ERROR_INVALID_VALUE, 0);
    Run(job, op, 0, BYTEPS_UNAVAILABLE, Who() + "a copy on cuda:0: ");
    Run(job, op, 0, BYTEPS_OK, "");
    Run(job, op, 50, BYTEPS_DEADLINE_EXCEEDED, Who() + "it was not ready on cuda:0 after");
    Run(job, op, 0, BYTEPS_OK, "");
  }
  job.Close();
}

const auto kKinds =
    ::testing::Values(Kind{"Alone", {1, 1, false}}, Kind{"OneMachine", {1, 3, false}},
                      Kind{"Servers", {3, 1, true}}, Kind{"Machines", {2, 2, true}});

std::string NameOf(const ::testing::TestParamInfo<Kind>& of) { return of.param.name; }

INSTANTIATE_TEST_SUITE_P(All, DeviceJobs, kKinds, NameOf);
INSTANTIATE_TEST_SUITE_P(All, DeviceJobsWithoutInput, kKinds, NameOf);

}  // namespace
}  // namespace byteps::standin
