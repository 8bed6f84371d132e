#include "src/protocol/control/changes/join_check.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "src/base/machine_layout.h"
#include "src/protocol/control/members/waiting_contributors.h"

namespace byteps::protocol {
namespace {

// No job has more than these; larger numbers are nonsense.
constexpr uint32_t kWorkersMax = 1 << 16;
constexpr uint32_t kShardsMax = 1 << 10;  // shards of one server
constexpr size_t kKeyBytesMax = 1024;     // bytes of a contributor's key

// Says what to do if two processes have one number.
std::string NumberOfItsOwn(Role role) {
  return role == Role::kWorker
             ? "; give each worker a DMLC_WORKER_ID and a BYTEPS_LOCAL_RANK of its own"
             : "; give each server a DMLC_RANK of its own, or none";
}

// REQUIRES: the machines with these sizes have so many workers together.
MachineLayout LayoutOf(const std::vector<uint32_t>& sizes, uint32_t workers) {
  if (sizes.size() > 1) return MachineLayout(sizes);
  return MachineLayout::Equal(workers / sizes.front(), sizes.front());
}

MachineLayout LayoutOf(const wire::Join& join) {
  return LayoutOf(join.local_sizes, join.worker_count);
}

// Returns whether the ranks of two processes go up while their local ranks go down, or the other
// way round. The carrier of a contributor is its lowest rank (members/quorum.h), and the first
// worker of its machine.
bool InOtherOrder(const wire::Join& a, const wire::Join& b) {
  if (a.rank < 0 || b.rank < 0 || a.local_rank == b.local_rank) return false;
  return (a.rank < b.rank) != (a.local_rank < b.local_rank);
}

bool IsSound(const wire::Join& join) {
  const std::vector<uint32_t>& sizes = join.local_sizes;
  if (join.worker_count == 0 || std::ranges::find(sizes, 0U) != sizes.end()) return false;
  if (sizes.size() == 1) return join.worker_count % sizes.front() == 0;
  return std::accumulate(sizes.begin(), sizes.end(), uint64_t{0}) == join.worker_count;
}

// This comes before the other numbers. If a launcher tells machines different layouts, other
// differences follow from that.
std::optional<std::string> InLayout(const CoordinatorState& state, const wire::Join& join) {
  if (!IsSound(join)) {
    return "its machines do not have " + std::to_string(join.worker_count) +
           " workers together; this is a fault of the program";
  }
  const bool equal = join.local_sizes.size() == 1;
  const std::vector<uint32_t>& told = state.around.options.local_sizes;
  const wire::Join* other = JoinOfAWorker(state.members.roster);
  // A join that does not fit is refused for that later, whoever has come before it.
  const bool fits = !equal || join.worker_count % state.around.options.worker_machines == 0;
  std::string wanted;
  if (!told.empty() && told != join.local_sizes) {
    wanted = "the coordinator of " + LayoutOf(told, state.around.options.worker_machines).Text();
  } else if (told.empty() && !equal &&
             join.local_sizes.size() != state.around.options.worker_machines) {
    wanted = "the coordinator of " + std::to_string(state.around.options.worker_machines) +
             " worker machines";
  } else if (fits && other != nullptr && !other->local_sizes.empty() &&
             LayoutOf(*other) != LayoutOf(join)) {
    wanted = "the others of " + LayoutOf(*other).Text();
  }
  if (wanted.empty()) return std::nullopt;
  return "you were told of " + LayoutOf(join).Text() + ", " + wanted +
         "; DMLC_NUM_WORKER and BYTEPS_LOCAL_SIZE must be the same everywhere, or, where machines "
         "have different numbers of workers, DMLC_NUM_WORKER and BYTEPS_LOCAL_SIZES";
}

std::optional<std::string> InWorkerNumbers(const CoordinatorState& state, const wire::Join& join) {
  if (join.worker_count > kWorkersMax) {
    return "you were told of " + std::to_string(join.worker_count) + " workers; a job has up to " +
           std::to_string(kWorkersMax);
  }
  const bool counted = join.local_sizes.size() > 1;  // compared machine by machine, in InLayout
  if (join.worker_count == 0 ||
      (!counted && join.worker_count % state.around.options.worker_machines != 0)) {
    return "you were told of " + std::to_string(join.worker_count) +
           " workers, the coordinator of " + std::to_string(state.around.options.worker_machines) +
           " worker machines; DMLC_NUM_WORKER must be the same everywhere";
  }
  const std::optional<uint32_t> worker_count = state.gathering.worker_count();
  if (join.worker_count != worker_count.value_or(join.worker_count)) {
    return "you were told of " + std::to_string(join.worker_count) + " workers, the others of " +
           std::to_string(*worker_count) +
           "; DMLC_NUM_WORKER, and BYTEPS_LOCAL_SIZE or BYTEPS_LOCAL_SIZES, must be the same "
           "everywhere";
  }
  if (join.piece_bytes_max == 0 || join.piece_bytes_max > wire::kPieceBytesMax) {
    return "its partition is " + std::to_string(join.piece_bytes_max) + " bytes";
  }
  const wire::Join* other = JoinOfAWorker(state.members.roster);
  if (other == nullptr) return std::nullopt;
  if (join.machines_sum != other->machines_sum) {
    return std::string(join.machines_sum
                           ? "the workers of your machine sum first, those of other machines do not"
                           : "the workers of other machines sum first, those of yours do not") +
           "; BYTEPS_LOCAL_REDUCE and BYTEPS_MIN_WORKERS must be the same for all workers";
  }
  if (join.same_bits != other->same_bits) {
    return std::string(join.same_bits
                           ? "your rank accepts only sums of the same bits on every layout, the "
                             "other ranks accept others"
                           : "the other ranks accept only sums of the same bits on every layout, "
                             "yours accepts others") +
           "; BYTEPS_SAME_BITS must be the same for all workers";
  }
  if (join.sum_group != other->sum_group) {
    return "your rank sums in groups of " + std::to_string(join.sum_group) +
           " ranks, the others in groups of " + std::to_string(other->sum_group) +
           "; BYTEPS_SUM_GROUP must be the same for all workers";
  }
  if (join.takes_objects != other->takes_objects) {
    return std::string(
               join.takes_objects
                   ? "your rank takes Python objects from other ranks, the others do not"
                   : "the other ranks take Python objects from each other, yours does not") +
           "; BYTEPS_ALLOW_OBJECTS and DMLC_PS_ROOT_URI must be the same for all workers";
  }
  if (join.piece_bytes_max != other->piece_bytes_max) {
    return "your partition is " + std::to_string(join.piece_bytes_max) +
           " bytes, the other workers' " + std::to_string(other->piece_bytes_max) +
           "; BYTEPS_PARTITION_BYTES must be the same for all workers";
  }
  return std::nullopt;
}

// Compares the numbers that must be equal for all.
std::optional<std::string> InNumbers(const CoordinatorState& state, const wire::Join& join) {
  if (join.role == Role::kCoordinator) return "it has a coordinator";
  if (join.incarnation == 0) return "it has no incarnation; this is a fault of the program";
  if (join.version != state.around.options.version) {
    return "this job runs version " + state.around.options.version + ", you run " + join.version +
           "; install the same version everywhere";
  }
  if (join.role == Role::kWorker && !join.local_sizes.empty()) {
    std::optional<std::string> reason = InLayout(state, join);
    if (reason.has_value()) return reason;
  }
  if (join.server_count != state.around.options.server_count) {
    return "you were told of " + std::to_string(join.server_count) +
           " servers, the coordinator of " + std::to_string(state.around.options.server_count) +
           "; DMLC_NUM_SERVER must be the same everywhere";
  }
  if (join.role == Role::kServer) {
    if (join.shards > 0 && join.shards <= kShardsMax) return std::nullopt;
    return "it has " + std::to_string(join.shards) + " shards; a server has 1 to " +
           std::to_string(kShardsMax);
  }
  return InWorkerNumbers(state, join);
}

std::optional<std::string> InServerPlaces(const CoordinatorState& state, const wire::Join& join) {
  if (PlaceFor(state, join) != nullptr) return std::nullopt;
  if (join.rank < 0) {
    return "all its servers' places are taken, or their servers had another number of shards; "
           "BYTEPS_SERVER_SHARDS must stay the same";
  }
  for (const wire::ServerInfo& place : state.views.in_force().servers) {
    if (place.index != static_cast<uint32_t>(join.rank)) continue;
    if (place.shard_weights.size() != join.shards) {
      return "server " + std::to_string(place.index) + " had " +
             std::to_string(place.shard_weights.size()) + " shards, you have " +
             std::to_string(join.shards) + "; BYTEPS_SERVER_SHARDS must stay the same";
    }
    return "it is taken by server " + std::to_string(place.index) + " (process " +
           std::to_string(place.process) + ")" + NumberOfItsOwn(join.role);
  }
  return "server " + std::to_string(join.rank) + " does not exist: there are " +
         std::to_string(state.views.in_force().servers.size());
}

std::optional<std::string> InPlaces(const CoordinatorState& state, const wire::Join& join) {
  bool worker = join.role == Role::kWorker;
  if (!worker && state.views.in_force().epoch > 0) return InServerPlaces(state, join);
  uint32_t expected = worker ? join.worker_count : state.around.options.server_count;
  if (join.rank >= static_cast<int64_t>(expected)) {
    return std::string(WordFor(join.role)) + " " + std::to_string(join.rank) +
           " does not exist: there are " + std::to_string(expected);
  }
  for (const auto& [id, member] : state.members.roster.all()) {
    if (member.role() != join.role || member.presence == Presence::kLeft || join.rank < 0) continue;
    bool going = state.members.departures.IsGoing(state.views.in_force(), member.incarnation());
    bool same = member.presence == Presence::kIn
                    ? !going && member.index == static_cast<uint32_t>(join.rank)
                    : member.join.rank == join.rank;
    if (same) return "it is taken by " + NameOf(member) + NumberOfItsOwn(join.role);
  }
  // A job that goes on with fewer workers may grow again. It hears of the new workers at the next
  // sync point.
  if (worker && state.around.options.min_workers > 0 && !state.gathering.IsOn())
    return std::nullopt;
  if (state.members.roster.Count(join.role, false) >= expected) {
    return "all its places are taken: more processes were started than DMLC_NUM_WORKER, "
           "BYTEPS_LOCAL_SIZE (or BYTEPS_LOCAL_SIZES) and DMLC_NUM_SERVER say";
  }
  return std::nullopt;
}

// The processes of a contributor share memory, so they are on one host.
std::optional<std::string> InContributor(const CoordinatorState& state, const wire::Join& join) {
  std::string size = std::to_string(join.contributor_size);
  bool alone = join.contributor.empty();
  if (join.contributor.size() > kKeyBytesMax || join.contributor_size == 0 ||
      join.contributor_size > join.worker_count || (alone && join.contributor_size != 1)) {
    return "it says that it is one of " + size +
           " processes of a contributor; this is a fault of the program";
  }
  for (const WaitingContributor& one : WaitingContributors(state.members.roster)) {
    if (alone || one.key != join.contributor) continue;
    const Member& first = *one.processes.front();
    if (one.size != join.contributor_size) {
      return "you were told of " + size + " processes on this machine, " + NameOf(first) + " of " +
             std::to_string(one.size) + "; BYTEPS_LOCAL_SIZE must be the same for all of them";
    }
    if (first.join.host != join.host) {
      return "it has the same DMLC_WORKER_ID as " + NameOf(first) +
             ", but is on another machine, or in a container with a network of its own; give each "
             "machine its own number, or set BYTEPS_LOCAL_REDUCE=0 for all workers";
    }
    if (one.IsWhole()) return "all " + size + " processes of its machine are here already";
    for (const Member* other : one.processes) {
      if (!InOtherOrder(join, other->join)) continue;
      return "it has local rank " + std::to_string(join.local_rank) + ", and " + NameOf(*other) +
             " of its machine has local rank " + std::to_string(other->join.local_rank) +
             "; where the workers of a machine sum together, ranks must go up with local ranks: "
             "change BYTEPS_GLOBAL_RANK or BYTEPS_LOCAL_RANK, or set BYTEPS_LOCAL_REDUCE=0 for "
             "all workers";
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> ReasonAgainst(const CoordinatorState& state, const wire::Join& join) {
  std::optional<std::string> reason = InNumbers(state, join);
  if (!reason.has_value()) reason = InPlaces(state, join);
  return reason.has_value() || join.role != Role::kWorker ? reason : InContributor(state, join);
}

const wire::ServerInfo* PlaceFor(const CoordinatorState& state, const wire::Join& join) {
  const wire::ServerInfo* best = nullptr;
  int best_rank = 0;
  for (const wire::ServerInfo& place : state.views.in_force().servers) {
    if (join.rank >= 0 && place.index != static_cast<uint32_t>(join.rank)) continue;
    bool claimed = std::any_of(
        state.members.roster.all().begin(), state.members.roster.all().end(), [&](auto& entry) {
          const Member& member = entry.second;
          return member.role() == Role::kServer && member.presence == Presence::kWaiting &&
                 member.index == place.index;
        });
    if (claimed || place.shard_weights.size() != join.shards) continue;
    int rank = 0;
    if (!place.alive || state.members.departures.IsLost(place.incarnation)) {
      rank = 3;
    } else if (IsSuccessor(join, place)) {
      rank = 2;
    } else if (state.members.suspicions.IsAway(place.incarnation)) {
      rank = 1;
    }
    if (rank > best_rank) {
      best = &place;
      best_rank = rank;
    }
  }
  return best;
}

bool IsSuccessor(const wire::Join& join, const wire::ServerInfo& place) {
  return !join.address.empty() && join.address == place.address && join.host == place.host;
}

}  // namespace byteps::protocol
