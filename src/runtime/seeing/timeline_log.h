// What a timeline shows of the inside of a process: when the pieces of a worker, the rounds of a
// shard, and operations passed their moments. Kept in memory, up to a limit, until somebody takes
// it. While the log is off, a moment costs a call and a look at a flag.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/thread_annotations.h"
#include "src/base/time.h"
#include "src/base/types.h"
#include "src/protocol/shard/round_watch.h"
#include "src/protocol/worker/lane/piece_watch.h"
#include "src/wire/data.h"

namespace byteps::runtime {

struct TimelineEntry {
  enum class Kind : uint8_t { kPiece = 1, kRound = 2, kOperation = 3 };
  static constexpr size_t kMomentsMax = 5;

  Kind kind = Kind::kPiece;
  // The name of the tensor, as long as the log lives; null for rounds: a shard knows no names.
  const std::string* name = nullptr;
  wire::PieceRef ref;
  uint32_t who = 0;  // of a piece: the shard that answered; of a round: the slot that came last
  uint8_t op = 0;    // of an operation: its wire::Op
  DataType dtype = DataType::kFloat32;  // the same
  uint64_t bytes = 0;
  // Of a piece: PieceMoment; of a round: RoundMoment; of an operation: begin and end.
  std::array<Time, kMomentsMax> at{};
};

class TimelineLog {
 public:
  static constexpr size_t kEntriesMax = size_t{1} << 16;

  using Clock = std::function<Time()>;
  // `clock` may be called on any thread.
  explicit TimelineLog(
      Clock clock = [] { return std::chrono::steady_clock::now(); },
      size_t entries_max = kEntriesMax);
  ~TimelineLog();

  // Any thread, here and down to Take. What has begun while it was off is never in it. Takes all
  // the memory that is needed while it is on.
  void SetOn(bool on);
  bool on() const { return on_.load(std::memory_order_relaxed); }
  Time Now() const { return clock_(); }
  // Where it is full the entry is lost, and counted. Needs no memory.
  void Add(const TimelineEntry& entry) noexcept;
  // One that lives as long as this.
  const std::string* Keep(std::string_view name);

  struct Taken {
    std::vector<TimelineEntry> entries;  // in order of their ends
    uint64_t lost = 0;                   // since the last call
  };
  // At most so many of the oldest entries; they are in it no more. Holds up the threads that add
  // for less than a millisecond.
  Taken Take(size_t count_max = 4096);

  // A watch for another lane, or another shard. It lives as long as this, and is called on one
  // thread. REQUIRES: nobody else calls these meanwhile.
  protocol::PieceWatch* NewPieceWatch();
  protocol::RoundWatch* NewRoundWatch();

 private:
  const Clock clock_;
  const size_t entries_max_;
  std::atomic<bool> on_ = false;
  std::vector<std::unique_ptr<protocol::PieceWatch>> piece_watches_;
  std::vector<std::unique_ptr<protocol::RoundWatch>> round_watches_;

  Mutex mutex_;
  std::vector<TimelineEntry> entries_ BYTEPS_GUARDED_BY(mutex_);
  uint64_t lost_ BYTEPS_GUARDED_BY(mutex_) = 0;
  std::set<std::string, std::less<>> names_ BYTEPS_GUARDED_BY(mutex_);
};

}  // namespace byteps::runtime
