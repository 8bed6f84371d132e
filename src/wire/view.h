// The members of a job, as a value: which processes take part, which of them are one contributor,
// and which shards own the pieces. A view travels inside messages of membership.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/types.h"

namespace byteps::wire {

// Slots are below this number.
inline constexpr uint32_t kMembersMax = 1 << 16;
// The largest View::sum_group.
inline constexpr uint32_t kSumGroupMax = 1024;
// The largest piece.
inline constexpr uint32_t kPieceBytesMax = uint32_t{64} << 20;

// A worker process. The processes with the same slot are one contributor.
struct WorkerInfo {
  Slot slot = 0;
  uint32_t rank = 0;  // no other process has it
  uint64_t incarnation = 0;
  std::string host;
  uint32_t process = 0;
  uint32_t local_rank = 0;
  uint32_t local_size = 1;
  // If set, the worker has left in order, and other ranks may still need it: rounds that it has not
  // pushed end in an error.
  bool left = false;
  friend bool operator==(const WorkerInfo&, const WorkerInfo&) = default;
};

struct ServerInfo {
  uint32_t index = 0;
  uint64_t incarnation = 0;
  std::string host;
  std::string address;
  uint32_t process = 0;
  ShardId first_shard = 0;
  std::vector<uint32_t> shard_weights;  // one number per shard: its share of the bytes
  bool alive = true;                    // false: its pieces belong to others (plan/ownership.h)
  uint64_t since = 0;                   // the epoch in which `alive` took its value
  // The weight of each shard's pieces since View::placed (plan/moves.h). Empty: the dealt pieces.
  std::vector<uint32_t> placed_weights;
  std::vector<std::string> more_addresses;  // as in Join
  friend bool operator==(const ServerInfo&, const ServerInfo&) = default;
};

// The members of the job and the owners of pieces. Epochs rise by one. A generation is all views
// with the same workers, except for lost ones, and the same servers, dead or alive.
struct View {
  uint64_t epoch = 0;    // 0: there is none
  uint32_t founder = 0;  // drawn by the coordinator that made the first view of this job
  uint32_t generation = 0;
  uint64_t began = 0;  // the epoch with which the generation began
  uint32_t piece_bytes_max = 0;
  std::vector<WorkerInfo> workers;
  std::vector<ServerInfo> servers;
  // Workers with which the generation began and that are no members any more. With them a member
  // that learns of the generation late counts ranks like all others.
  std::vector<WorkerInfo> gone;
  // The last epoch in this generation that moved pieces between the shards because of their links.
  // 0: there is none.
  uint64_t placed = 0;
  // The order of sums (base/sum_place.h), which is equal for all workers. `same_bits`: a sum whose
  // bits would depend on more than ranks and inputs ends in an error, and every node of a sum is a
  // number of the tensor's type. `sum_group`: the ranks that are neighbours in the tree.
  bool same_bits = false;
  uint32_t sum_group = 1;
  friend bool operator==(const View&, const View&) = default;
};

// Returns members and gone workers, by slot and rank. So a member that skips views has the same
// ranks and the same layouts by rank.
std::vector<WorkerInfo> WorkersOfGeneration(const View& view);

// Processes that take part as one. They have one slot, and one of them, the carrier, talks to the
// shards for all.
struct Contributor {
  Slot slot = 0;
  std::vector<WorkerInfo> processes;  // by rank; never empty
  const WorkerInfo& carrier() const { return processes.front(); }
  friend bool operator==(const Contributor&, const Contributor&) = default;
};
// Return contributors by slot: of the view's members, and of these processes.
std::vector<Contributor> ContributorsOf(const View& view);
std::vector<Contributor> ContributorsOf(std::vector<WorkerInfo> workers);

}  // namespace byteps::wire
