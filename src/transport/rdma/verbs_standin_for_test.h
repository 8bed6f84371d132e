// A stand-in for libibverbs.so.1: devices that exist in this process only, and reliable connections
// between their queue pairs. The product finds it as it finds the real library, by dlopen.
//
// It is stricter than a device. A posted receive buffer gets a pattern, and under ASan nobody may
// look at it; a posted send is compared with its checksum; keys, access rights, states, depths and
// the order of destruction are checked. It notes each mistake as a complaint. Like a device it
// repeats messages, ends a queue pair after a mistake, and says nothing of a peer that is gone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace byteps::standin {

using Gid = std::array<uint8_t, 16>;

// Returns the GID of an IPv4 address, which is how RoCE writes it.
constexpr Gid GidOf(uint8_t a, uint8_t b, uint8_t c, uint8_t d) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d};
}

// Control: the side of the stand-in that tests see. Thread-safe.
class Control {
 public:
  // Counts what is open now, and what has happened since the last Reset.
  struct Counts {
    size_t contexts = 0;
    size_t domains = 0;
    size_t regions = 0;
    size_t channels = 0;
    size_t completion_queues = 0;
    size_t queue_pairs = 0;
    size_t registered_bytes = 0;
    uint64_t messages = 0;       // delivered
    uint64_t bytes = 0;          // delivered
    uint64_t not_ready = 0;      // messages that found no posted receive (RNR)
    uint64_t notifications = 0;  // events of completion channels

    bool nothing_is_open() const {
      return contexts + domains + regions + channels + completion_queues + queue_pairs == 0;
    }
  };

  // Ends all faults and delays, forgets complaints and counts, and repairs the devices.
  virtual void Reset() = 0;
  virtual Counts counts() = 0;
  virtual std::vector<std::string> complaints() = 0;

  // Delays each message, and each acknowledgement, by up to so many microseconds, drawn from
  // `seed`.
  virtual void Delay(uint64_t seed, uint32_t microseconds_max) = 0;
  // Messages and acknowledgements stay on their way until this is over. REQUIRES: both ends are in
  // this process.
  virtual void Hold(bool held) = 0;
  // The message that is the `number`th from now on (1: the next) ends with this ibv_wc_status at
  // its sender.
  virtual void FailMessage(uint64_t number, int status) = 0;
  // Registers at most so many bytes, and then says ENOMEM.
  virtual void LimitRegisteredBytes(size_t bytes) = 0;
  // Creates at most so many queue pairs, and then says ENOMEM.
  virtual void LimitQueuePairs(size_t count) = 0;
  // Replaces the GIDs of all devices. Each is there twice: as RoCE v1, then as RoCE v2.
  virtual void SetGids(const std::vector<Gid>& gids) = 0;
  // Makes the port of this device active or not; a change raises its event.
  virtual void SetPortActive(size_t device, bool active) = 0;
  // The device is gone: its queue pairs end in errors, and it raises IBV_EVENT_DEVICE_FATAL.
  virtual void KillDevice(size_t device) = 0;
  // The device is gone like one that was pulled out: it raises IBV_EVENT_DEVICE_FATAL and does
  // nothing more. Its queue pairs neither end nor say anything, and take what is posted.
  virtual void LoseDevice(size_t device) = 0;
  // From now on nothing arrives any more, and nobody is told.
  virtual void Silence(bool silent) = 0;
  // Hides the devices, as a container without /dev/infiniband does.
  virtual void HideDevices(bool hidden) = 0;

 protected:
  ~Control() = default;
};

// Returns the address of a device over which tests shall run, instead of the stand-in, as in the
// lane `rdma` (TEST_RDMA_ADDRESS). Empty: the stand-in.
std::string RealAddress();
// Returns where the build has put the library; the name of the system's, if the tests run over a
// device.
std::string LibraryPath();
// Returns the control of the stand-in, and loads the library if it is not loaded yet. Ends the
// program if the tests run over a device.
Control& TheControl();

}  // namespace byteps::standin
