// GPUs, and what else has memory of its own: which there are, what their users have given them to
// do, and copies between their memory and the host's.
//
// A call may wait for the device's driver, for as long as the user's own work holds the driver up.
// So only threads that nobody else waits for make such calls: the user's thread in its own call,
// and the threads of lines (copy_line.h, ready_line.h, pinned_memory.h).
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "src/base/status.h"

namespace byteps::device {

// Says what a device is, for people and for ranks that compare.
struct DeviceFacts {
  std::string name;     // "NVIDIA H100"
  std::string uuid;     // tells devices apart; the number of a device may differ by process
  std::string address;  // on the PCI bus
};

// A point in a stream of a user: all that the stream had been given when the point was noted. One
// thread at a time. Its end makes no call of the driver.
class Mark {
 public:
  virtual ~Mark() = default;
  // Blocks until the stream has reached the point. kUnavailable: the device is broken.
  virtual Status Wait() = 0;
  // Returns whether the stream has reached the point. Does not wait for the stream.
  virtual Result<bool> IsReached() = 0;
};

// A stream of our own, which copies between host and device. Belongs to the thread that has made
// it.
class CopyStream {
 public:
  static constexpr int kBatches = 2;

  virtual ~CopyStream() = default;
  // Begins a copy behind all earlier ones; does not wait for it. The memory stays until the batch
  // has ended. kUnavailable: nothing was begun.
  virtual Status Copy(std::byte* to, const std::byte* from, size_t bytes) = 0;
  // Closes a batch: the copies since the last call. `batch` is below kBatches.
  virtual Status Close(int batch) = 0;
  // Blocks until the copies of this batch, as it was closed last, have ended.
  virtual Status Wait(int batch) = 0;
  // Blocks until nothing of this stream touches memory any more, also after an error.
  virtual void Drain() = 0;
  // Returns the stream under the name that other libraries of the device know, so that they can
  // give it work. This work belongs to the batch that is open.
  virtual void* handle() = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  // Does not block. Any thread.
  virtual const DeviceFacts& facts() const = 0;

  // Notes what `stream` has been given so far. Called on the thread of the user, who owns the
  // stream. kInvalidArgument: the stream is being captured. kUnavailable: the device is broken.
  virtual Result<std::unique_ptr<Mark>> MarkOf(void* stream) = 0;

  // Returns kInvalidArgument, with the reason, if the bytes are not of this device.
  virtual Status CheckMemory(const void* memory) = 0;

  // Prepares the calling thread, which is a line's own, for all other calls. Once for each thread.
  virtual Status Enter() = 0;
  // REQUIRES: the thread has entered.
  virtual Result<std::unique_ptr<CopyStream>> NewCopyStream() = 0;

  // Return and take back host memory that the device reaches by itself. May wait for all work of
  // the device. kExhausted: there is no such memory. Any thread that tells nobody of the end of a
  // copy or of a mark.
  virtual Result<std::byte*> TakePinned(size_t bytes) = 0;
  virtual void GivePinned(std::byte* memory) = 0;

  // Lets the devices of this process reach memory of the process by themselves until Unpin, which
  // must come before the memory goes. Memory may be pinned several times; each time needs an Unpin.
  // May wait, and may be called, like TakePinned. kExhausted: the memory cannot be pinned.
  virtual Status Pin(std::byte* memory, size_t bytes) = 0;
  virtual void Unpin(std::byte* memory) = 0;
};

// All devices of one kind that this process sees.
class Devices {
 public:
  virtual ~Devices() = default;
  // Return how many devices there are, and the version of their driver.
  virtual int count() const = 0;
  virtual const std::string& version() const = 0;
  // Returns what a device is. Makes no context. kInvalidArgument: there is no such device.
  virtual Result<DeviceFacts> FactsOf(int number) const = 0;
  // Returns a device, which lives as long as this object. A device gets memory of the driver's only
  // when somebody asks for it here. kInvalidArgument: there is no such device. Any thread.
  virtual Result<Device*> Open(int number) = 0;
};

}  // namespace byteps::device
