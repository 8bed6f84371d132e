// Tests of the contract of every kind of device, and of the lines over it. A kind joins with one
// line in a *_test.cc:
//
//   INSTANTIATE_TEST_SUITE_P(Host, DeviceConformance, ::testing::Values(Kind{...}));
//
// The tests are in conformance_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/count_for_test.h"
#include "src/device/device.h"

namespace byteps::device {

// Does with devices what a user does, beside the interface of the library.
class DeviceUser {
 public:
  virtual ~DeviceUser() = default;
  virtual Devices& devices() = 0;
  virtual void* NewStream() = 0;
  virtual std::byte* NewMemory(int device, size_t bytes) = 0;
  // Lets the stream fill memory with a value, when all that it was given before is done.
  virtual void Fill(void* stream, std::byte* memory, size_t bytes, uint8_t value) = 0;
  // Returns the bytes of device memory. REQUIRES: nothing writes them.
  virtual std::vector<uint8_t> Read(const std::byte* memory, size_t bytes) = 0;
  // Make a stream stand still, and go on.
  virtual void Hold(void* stream) = 0;
  virtual void LetGo(void* stream) = 0;
  virtual void BeginCapture(void* stream) = 0;
  // Returns whether the capture is whole.
  virtual bool EndCapture(void* stream) = 0;
  // Makes a later step of a copy fail once.
  enum class Step : uint8_t { kCopy, kClose, kWait };
  virtual void FailOnce(Step step) = 0;
};

struct Kind {
  std::string name;
  std::function<std::unique_ptr<DeviceUser>()> make;
};
inline void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

// Lends a device to lines, which share theirs. REQUIRES: the lines end before it.
inline std::shared_ptr<Device> Lent(Device& device) { return {std::shared_ptr<Device>(), &device}; }

class DeviceConformance : public ::testing::TestWithParam<Kind> {
 protected:
  DeviceConformance() : user_(GetParam().make()) {}
  Device& device(int number = 0) {
    Result<Device*> opened = user_->devices().Open(number);
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    return *opened.value();
  }

  std::shared_ptr<Device> lent(int number = 0) { return Lent(device(number)); }

  const std::unique_ptr<DeviceUser> user_;
};

}  // namespace byteps::device
