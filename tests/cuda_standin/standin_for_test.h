// Tests over the stand-in: each begins without settings, and leaves nothing behind.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <string>

#include <gtest/gtest.h>

#include "tests/cuda_standin/standin.h"

namespace byteps::standin {

// Returns the path of the stand-in, by which the library finds it like a driver.
inline std::string LibraryPath() {
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&stand_in_reset), &info);
  return info.dli_fname;
}

// Holds the context of a device current on this thread, as a framework does.
class UserContext {
 public:
  explicit UserContext(int device = 0) : device_(device) {
    EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
    CUcontext context = nullptr;
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  }
  ~UserContext() {
    cuCtxSetCurrent(nullptr);
    EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(device_), CUDA_SUCCESS);
  }
  UserContext(const UserContext&) = delete;
  UserContext& operator=(const UserContext&) = delete;

 private:
  const int device_;
};

// Expects that nothing is left of what was made since the constructor.
class NothingLeft {
 public:
  NothingLeft() { stand_in_reset(); }
  ~NothingLeft() {
    const stand_in_counts left = stand_in_count();
    EXPECT_EQ(left.contexts, 0);
    EXPECT_EQ(left.streams, 0);
    EXPECT_EQ(left.events, 0);
    EXPECT_EQ(left.pinned_bytes, 0u);
    EXPECT_EQ(left.device_bytes, 0u);
    EXPECT_EQ(left.pageable_copies, 0u);
    stand_in_reset();
  }
  NothingLeft(const NothingLeft&) = delete;
  NothingLeft& operator=(const NothingLeft&) = delete;
};

}  // namespace byteps::standin
