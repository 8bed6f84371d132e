// The moments inside a process that a timeline shows: of the pieces of a worker, of the rounds of a
// shard, and of operations. The log keeps them in memory, up to a limit, until somebody takes them.
// While the log is off, a moment costs a call and a look at a flag.
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
  // The name of the tensor, valid as long as the log lives; null for rounds, because a shard knows
  // no names.
  const std::string* name = nullptr;
  wire::PieceRef ref;
  // The shard that answered a piece, or the slot that came last to a round.
  uint32_t who = 0;
  uint8_t op = 0;                       // the wire::Op of an operation
  DataType dtype = DataType::kFloat32;  // of an operation
  uint64_t bytes = 0;
  // The moments of a piece (PieceMoment) or of a round (RoundMoment), or begin and end of an
  // operation.
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

  // Any thread may call SetOn and the methods down to Take. The log never contains a piece, round
  // or operation that began while the log was off. SetOn takes all the memory that the log needs
  // while it is on.
  void SetOn(bool on);
  bool on() const { return on_.load(std::memory_order_relaxed); }
  Time Now() const { return clock_(); }
  // Adds an entry. If the log is full, counts the entry as lost. Needs no memory.
  void Add(const TimelineEntry& entry) noexcept;
  // Returns a copy of the name that lives as long as this log.
  const std::string* Keep(std::string_view name);

  struct Taken {
    std::vector<TimelineEntry> entries;  // in order of their ends
    uint64_t lost = 0;                   // since the last call
  };
  // Takes at most `count_max` of the oldest entries out of the log. Holds up the threads that add
  // for less than a millisecond.
  Taken Take(size_t count_max = 4096);

  // Make a watch for another lane, or another shard. The watch lives as long as this log, and is
  // called on one thread. REQUIRES: only one thread calls these at a time.
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
