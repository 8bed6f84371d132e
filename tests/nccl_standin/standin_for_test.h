// Tests over the stand-in for NCCL: each begins without settings, and leaves nothing behind.
#pragma once

#include <dlfcn.h>

#include <string>

#include <gtest/gtest.h>

#include "tests/nccl_standin/standin.h"

namespace byteps::standin {

// Returns the path of the stand-in, by which the library finds it like NCCL.
inline std::string NcclPath() {
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&nccl_stand_in_reset), &info);
  return info.dli_fname;
}

// Expects that nothing is left of what was made since the constructor.
class NoGroupsLeft {
 public:
  NoGroupsLeft() { nccl_stand_in_reset(); }
  ~NoGroupsLeft() {
    const nccl_stand_in_counts left = nccl_stand_in_count();
    EXPECT_EQ(left.communicators, 0);
    EXPECT_EQ(left.ids, 0);
    nccl_stand_in_reset();
  }
  NoGroupsLeft(const NoGroupsLeft&) = delete;
  NoGroupsLeft& operator=(const NoGroupsLeft&) = delete;
};

}  // namespace byteps::standin
