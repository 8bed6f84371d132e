// One rank's part in the collectives of a group: exchanges chunks with the other ranks through
// the group's memory, and adds them in the order of a ring.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "tests/nccl_standin/group_memory.h"

namespace byteps::standin {

enum class CollectiveKind : int32_t {
  kReduce,
  kBroadcast,
  kAllReduce,
  kReduceScatter,
  kAllGather,
};

// Says where the bytes of a collective are on this rank.
struct CollectivePlaces {
  const unsigned char* from = nullptr;
  unsigned char* to = nullptr;
};

// A rank in its group. Its collectives run on one stream, one after the other.
class GroupRank {
 public:
  GroupRank(std::unique_ptr<GroupMemory> of, int own_rank, int ranks)
      : memory(std::move(of)), rank(own_rank), size(ranks) {}

  // Returns whether the collective has ended; false if the rank aborts.
  bool Run(const CollectiveCall& call, const CollectivePlaces& places);

  const std::unique_ptr<GroupMemory> memory;
  const int rank;
  const int size;
  std::atomic<bool> aborts = false;

 private:
  // Shows the own step to the others, and waits until all have come so far, with a call like
  // `alike` if there is one. Between two such steps no rank changes what it shows.
  bool Step(const CollectiveCall* alike);
  void Take(const CollectiveCall& call, uint64_t first, uint64_t count, unsigned char* to);
  void Sum(const CollectiveCall& call, int share, uint64_t offset, uint64_t count,
           unsigned char* to);

  uint64_t step_ = 0;
};

// Returns the bytes of an element of NCCL's type; 0 if the stand-in does not know the type.
size_t ElementBytes(int type);
// Returns the elements of a rank's input and of its output.
uint64_t InputCount(const CollectiveCall& call, int size);
uint64_t OutputCount(const CollectiveCall& call, int size);

// Counts the bytes of a rank in a collective.
struct RingBytes {
  size_t sent = 0;
  size_t received = 0;
};
// Returns what a rank sends and receives if the collective runs in a ring.
RingBytes BytesInRing(const CollectiveCall& call, int rank, int size);

}  // namespace byteps::standin
