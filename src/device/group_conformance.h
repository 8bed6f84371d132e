// Tests of the contract of every library of groups, and of the line over it. A library joins with
// one line in a *_test.cc, as in conformance.h. The tests are in group_conformance_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/device/communicator.h"
#include "src/device/device.h"

namespace byteps::device {

// Has devices with groups among them, and does with them what their users and failures do.
class GroupUser {
 public:
  virtual ~GroupUser() = default;
  virtual std::shared_ptr<Groups> groups() = 0;
  // Returns the device that a rank brings. Ranks may share a device.
  virtual std::shared_ptr<Device> device(uint32_t rank) = 0;
  virtual std::byte* NewMemory(uint32_t rank, size_t bytes) = 0;
  // REQUIRES: nothing uses the memory.
  virtual void Write(std::byte* memory, const std::vector<std::byte>& bytes) = 0;
  virtual std::vector<std::byte> Read(const std::byte* memory, size_t bytes) = 0;
  // Makes the library tell an error to the next rank that asks.
  virtual void Break() = 0;
  // Makes the device of one rank fail once when its line waits for a launch.
  virtual void FailWait() = 0;
  // Let aborts wait, and go on.
  virtual void HoldAborts() = 0;
  virtual void LetAbortsGo() = 0;
  // Returns how many memberships have begun and not ended, and how many times a rank has begun a
  // launch.
  virtual int members() = 0;
  virtual int begun() = 0;
};

struct GroupKind {
  std::string name;
  std::function<std::unique_ptr<GroupUser>()> make;
};
inline void PrintTo(const GroupKind& kind, std::ostream* out) { *out << kind.name; }

class GroupConformance : public ::testing::TestWithParam<GroupKind> {
 protected:
  GroupConformance() : user_(GetParam().make()) {}
  const std::unique_ptr<GroupUser> user_;
};

}  // namespace byteps::device
