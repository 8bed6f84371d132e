// Device memory of the stand-in, as a program has it: kernels write and read it, in the order of
// streams.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/cuda_standin/standin_for_test.h"

namespace byteps::standin {

using Bytes = std::vector<uint8_t>;

// A stream of the user.
class UserStream {
 public:
  UserStream() {
    EXPECT_EQ(cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
  }
  ~UserStream() { EXPECT_EQ(cuStreamDestroy_v2(stream_), CUDA_SUCCESS); }
  UserStream(const UserStream&) = delete;
  UserStream& operator=(const UserStream&) = delete;
  CUstream get() const { return stream_; }

 private:
  CUstream stream_ = nullptr;
};

// Memory of the device whose context is current on the thread.
class UserMemory {
 public:
  explicit UserMemory(size_t bytes) : bytes_(bytes) {
    EXPECT_EQ(cuMemAlloc_v2(&address_, bytes == 0 ? 1 : bytes), CUDA_SUCCESS);
  }
  ~UserMemory() {
    if (address_ == 0) return;
    EXPECT_EQ(cuMemFree_v2(address_), CUDA_SUCCESS);
  }
  UserMemory(UserMemory&& other) noexcept
      : address_(std::exchange(other.address_, 0)), bytes_(other.bytes_) {}
  UserMemory& operator=(UserMemory&&) = delete;

  void* data() const { return reinterpret_cast<void*>(address_); }

  // Lets a "kernel" write the bytes when the stream comes to it.
  void Write(CUstream stream, const Bytes& bytes) {
    struct Work {
      CUdeviceptr address;
      Bytes bytes;
    };
    auto* work = new Work{address_, bytes};  // tidy-allow(new): the kernel's
    auto write = [](void* context) {
      const std::unique_ptr<Work> own(static_cast<Work*>(context));
      if (!own->bytes.empty()) {
        std::memcpy(stand_in_bytes(own->address), own->bytes.data(), own->bytes.size());
      }
    };
    stand_in_kernel(stream, write, work);
  }
  // Writes the bytes at once.
  void Set(const Bytes& bytes) {
    if (!bytes.empty()) std::memcpy(stand_in_bytes(address_), bytes.data(), bytes.size());
  }
  // Returns what lies there now, without waiting for any stream.
  Bytes Read() const {
    Bytes read(bytes_);
    if (bytes_ > 0) std::memcpy(read.data(), stand_in_bytes(address_), bytes_);
    return read;
  }

 private:
  CUdeviceptr address_ = 0;
  const size_t bytes_;
};

}  // namespace byteps::standin
