// Groups of devices of one machine that sum among themselves: what a GroupLine (group_line.h) needs
// of a library such as NCCL.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/device/device.h"

namespace byteps::device {

// Names a group before it meets. One rank makes the name and tells it to the others.
using GroupId = std::array<std::byte, 128>;

// A part of a tensor. One rank of the group, its home, gets the sum of these bytes.
struct GroupRun {
  uint32_t home = 0;
  size_t first = 0;  // byte of the tensor
  size_t bytes = 0;
  friend bool operator==(const GroupRun&, const GroupRun&) = default;
};

// Says what all ranks of a group do together. Only the addresses differ between the ranks.
struct Launch {
  enum class Kind : uint8_t {
    kReduce,     // each home gets the sum of its runs, at their places in `to`
    kReduceAll,  // each rank gets the sum of `bytes`
    kGather,     // each rank gets the runs of all homes, at their places in `to`, from `to`
  };
  Kind kind = Kind::kReduce;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;  // the same as `from`, or apart from it
  std::vector<GroupRun> runs;
  size_t bytes = 0;
  DataType type = DataType::kFloat32;
  Combine how = Combine::kSum;
};

// Returns whether groups reduce such elements in this way for homes. Averages are sums there: who
// owns the sum divides.
constexpr bool CanReduce(DataType type, Combine how) {
  const bool has_type = type != DataType::kInt16 && type != DataType::kBool;
  return has_type && (how == Combine::kSum || how == Combine::kMin || how == Combine::kMax ||
                      how == Combine::kProduct);
}

// Returns whether groups reduce such elements in this way for all ranks. Nobody but the group could
// divide then, and the sum of integers may wrap before.
constexpr bool CanReduceAll(DataType type, Combine how) {
  const bool is_float = type == DataType::kFloat32 || type == DataType::kFloat64 ||
                        type == DataType::kFloat16 || type == DataType::kBfloat16;
  return CanReduce(type, how) || (how == Combine::kAverage && is_float);
}

// Returns whether rank r is the home of run r, and all runs have one size and follow each other:
// then one operation of the library moves all runs.
bool AreEqualRuns(const std::vector<GroupRun>& runs, uint32_t size);

// One rank's membership in a group. Two calls are never under way at the same time; apart from that
// any thread may make them that has entered the device. If a call has failed, only Abort may
// follow.
class Communicator {
 public:
  virtual ~Communicator() = default;

  // Asks how the last call has gone on. True: it has ended, and the stream has what it was given.
  // False: it is under way, and no other call may come but this one and Abort. Does not wait for
  // other ranks. kUnavailable: the group is broken.
  virtual Result<bool> Ask() = 0;
  // Begins to give the launch to the stream. Does not wait for other ranks; the launch itself ends
  // when all ranks have come to it.
  virtual Status Begin(const Launch& launch, CopyStream& stream) = 0;
  // Begins the end of the membership. Every other rank must leave, too. When Ask returns true
  // after this call, nothing is left of the membership. REQUIRES: no launch is under way.
  virtual Status Leave() = 0;
  // Ends the membership and what is under way. Waits for the other ranks, without a limit: each
  // one must do the same.
  virtual void Abort() = 0;
};

// A library in which devices of one kind can form groups. Any thread.
class Groups {
 public:
  virtual ~Groups() = default;
  // Returns "NCCL 2.28.9".
  virtual const std::string& name() const = 0;
  virtual Result<GroupId> NewId() = 0;
  // Begins to meet the other ranks: Ask says whether all have come. Does not wait for them.
  // REQUIRES: the thread has entered the device that the rank brings.
  virtual Result<std::unique_ptr<Communicator>> Join(const GroupId& id, uint32_t rank,
                                                     uint32_t size) = 0;
};

}  // namespace byteps::device
