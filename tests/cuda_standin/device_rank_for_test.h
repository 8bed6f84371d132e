// Ranks of whole jobs with large tensors in device memory, behind the C interface, for tests.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "byteps/device.h"
#include "tests/capi_job.h"
#include "tests/cuda_standin/standin_for_test.h"
#include "tests/cuda_standin/user_memory.h"

namespace byteps::standin::pieces {

using byteps::testing::CApiJob;

// The pieces of a large tensor take all blocks of a machine in a job with servers; those of a
// smaller one do not. Without servers a smaller one is a single piece.
inline constexpr int64_t kLarge = 300000;
inline constexpr int64_t kSmaller = 20000;

// The shape stays with the caller.
inline byteps_request RequestOf(byteps_op op, void* input, void* output, const int64_t& floats) {
  byteps_request request{};
  request.name = "w";
  request.op = op;
  request.dtype = BYTEPS_FLOAT32;
  request.shape = &floats;
  request.dimensions = 1;
  request.input = input;
  request.output = output;
  return request;
}

// Values that no sum of three makes large.
inline Bytes InputOf(int rank, int64_t floats = kLarge) {
  std::vector<float> values(static_cast<size_t>(floats));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = 1.0F / static_cast<float>(1 + (i * 7 + static_cast<size_t>(rank)) % 1000);
  }
  Bytes bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// The end of an operation on one rank.
struct End {
  byteps_code code = BYTEPS_INTERNAL;
  std::string text;
  Bytes output;
};

inline End WaitFor(byteps_session* session, byteps_handle handle) {
  byteps_error error{};
  End end{byteps_wait(session, handle, 60000, &error), "", {}};
  end.text = error.message;
  byteps_release(session, handle);
  return end;
}

// One rank with its tensor on a device. Belongs to one thread.
class DeviceRank {
 public:
  // `device`: the rank's own one if it is negative.
  DeviceRank(CApiJob& job, int rank, int64_t floats = kLarge, std::string name = "w",
             int device = -1)
      : session_(job.session(rank)),
        rank_(rank),
        floats_(floats),
        name_(std::move(name)),
        device_(device < 0 ? rank % STAND_IN_DEVICES : device),
        context_(device_) {
    memory_.emplace(static_cast<size_t>(floats) * sizeof(float));
  }

  // Begins an operation in place, whose input comes later in a stream.
  byteps_handle Start(byteps_op op, int64_t limit_ms = 0) {
    memory_->Write(stream_.get(), InputOf(rank_, floats_));
    return Begin(op, stream_.get(), limit_ms);
  }
  // The same with an input that is there.
  byteps_handle StartAtOnce(byteps_op op, int64_t limit_ms = 0) {
    memory_->Set(InputOf(rank_, floats_));
    return Begin(op, BYTEPS_NO_STREAM, limit_ms);
  }
  End Finish(byteps_handle handle) {
    End end = WaitFor(session_, handle);
    end.output = memory_->Read();
    return end;
  }

 private:
  byteps_handle Begin(byteps_op op, void* stream, int64_t limit_ms) {
    byteps_request request = RequestOf(op, memory_->data(), memory_->data(), floats_);
    request.name = name_.c_str();
    request.memory = BYTEPS_MEMORY_DEVICE;
    request.device = device_;
    request.stream = stream;
    request.limit_ms = limit_ms;
    byteps_handle handle = 0;
    byteps_error error{};
    EXPECT_EQ(byteps_start(session_, &request, &handle, &error), BYTEPS_OK) << error.message;
    return handle;
  }

  byteps_session* const session_;
  const int rank_;
  const int64_t floats_;
  const std::string name_;
  const int device_;
  const UserContext context_;
  const UserStream stream_;
  std::optional<UserMemory> memory_;
};

// `begun`: is called when the operation has begun.
inline End OnHost(
    CApiJob& job, int rank, byteps_op op, int64_t floats = kLarge, const std::string& name = "w",
    const std::function<void()>& begun = [] {}) {
  End end;
  end.output = InputOf(rank, floats);
  byteps_request request = RequestOf(op, end.output.data(), end.output.data(), floats);
  request.name = name.c_str();
  byteps_handle handle = 0;
  byteps_error error{};
  EXPECT_EQ(byteps_start(job.session(rank), &request, &handle, &error), BYTEPS_OK) << error.message;
  begun();
  const End how = WaitFor(job.session(rank), handle);
  end.code = how.code;
  end.text = how.text;
  return end;
}

// Carries out `of_rank` for all ranks at once.
inline std::vector<End> OnAll(int ranks, const std::function<End(int rank)>& of_rank) {
  std::vector<End> ends(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] { ends[static_cast<size_t>(rank)] = of_rank(rank); });
  }
  for (std::thread& thread : threads) thread.join();
  return ends;
}

// A kind of job.
struct Kind {
  const char* name;
  CApiJob::Shape shape;
  bool by_pieces = true;  // large tensors
};
inline void PrintTo(const Kind& kind, std::ostream* to) { *to << kind.name; }

// Waits until something is so. Returns whether it is.
inline bool Await(const std::function<bool()>& is_so) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!is_so() && std::chrono::steady_clock::now() < until) {
    // tidy-allow(sleep): the stand-in tells no event.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return is_so();
}

}  // namespace byteps::standin::pieces
