// The memory that the ranks of a group share. Each rank opens it by itself, also two ranks of one
// process. A rank holds a lock on its byte of the file, which goes with its process: so the others
// see that a rank lives.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace byteps::standin {

inline constexpr int kRanksMax = 16;
inline constexpr size_t kChunkBytes = size_t{32} << 10;

// Says what a rank calls. Ranks whose calls differ wait for each other for ever.
struct CollectiveCall {
  int32_t kind = 0;
  int32_t type = 0;
  int32_t how = 0;
  int32_t root = 0;
  uint64_t count = 0;
  friend bool operator==(const CollectiveCall&, const CollectiveCall&) = default;
};

// Has what one rank shows to the others.
struct RankPlace {
  std::atomic<uint32_t> has_joined;
  std::atomic<uint32_t> has_left;
  std::atomic<uint32_t> has_aborted;
  int32_t version;
  int32_t size;  // of the group
  unsigned char uuid[16];
  std::atomic<uint64_t> step;  // in its collectives
  CollectiveCall call;
  alignas(64) unsigned char bytes[kChunkBytes];
};

struct GroupFile {
  std::atomic<uint64_t> nonce;  // of the unique id
  std::atomic<uint32_t> changes;
  RankPlace ranks[kRanksMax];
};

// Names the file in a unique id.
struct GroupName {
  char mark[8];
  int32_t process;
  int32_t descriptor;
  uint64_t nonce;
};

// Returns the descriptor of a new file, or -1.
int MakeGroupFile(GroupName& name);

class GroupMemory {
 public:
  GroupMemory(int descriptor, int rank, GroupFile* file)
      : descriptor_(descriptor), rank_(rank), file_(file) {}
  // Opens the file for a rank. Null: the process that has made the file does not have it any more.
  static std::unique_ptr<GroupMemory> Open(const GroupName& name, int rank);
  ~GroupMemory();
  GroupMemory(const GroupMemory&) = delete;
  GroupMemory& operator=(const GroupMemory&) = delete;

  RankPlace& own() { return file_->ranks[rank_]; }
  RankPlace& of(int rank) { return file_->ranks[rank]; }
  bool Lives(int rank) const;
  // Wakes the ranks that wait.
  void Notify();
  // Blocks until `is_true`, or until `gives_up`. Returns whether it is true.
  bool Wait(const std::function<bool()>& is_true, const std::function<bool()>& gives_up);

 private:
  const int descriptor_;
  const int rank_;
  GroupFile* const file_;
};

}  // namespace byteps::standin
