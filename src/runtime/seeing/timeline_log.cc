#include "src/runtime/seeing/timeline_log.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace byteps::runtime {
namespace {

// The entries whose last moment has not come, by piece. A piece has one open round at a time here.
class OpenEntries {
 public:
  TimelineEntry& Begin(const wire::PieceRef& ref) {
    TimelineEntry& entry = open_[KeyOf(ref)];
    entry = TimelineEntry();
    entry.ref = ref;
    return entry;
  }
  // Returns null if the round began while nobody recorded, or is another round.
  TimelineEntry* Find(const wire::PieceRef& ref) {
    auto found = open_.find(KeyOf(ref));
    return found == open_.end() || found->second.ref.round != ref.round ? nullptr : &found->second;
  }
  void End(const wire::PieceRef& ref) { open_.erase(KeyOf(ref)); }
  void Clear() { open_.clear(); }

 private:
  static uint64_t KeyOf(const wire::PieceRef& ref) {
    return (uint64_t{ref.tensor} << 32) | ref.piece;
  }
  std::unordered_map<uint64_t, TimelineEntry> open_;
};

size_t IndexOf(protocol::PieceMoment moment) { return static_cast<size_t>(moment); }
size_t IndexOf(protocol::RoundMoment moment) { return static_cast<size_t>(moment); }

class PieceTimes final : public protocol::PieceWatch {
 public:
  explicit PieceTimes(TimelineLog& log) : log_(log) {}

  void On(const protocol::PieceEvent& event) override {
    using enum protocol::PieceMoment;
    if (!log_.on()) return open_.Clear();
    TimelineEntry* entry = event.moment == kQueued ? &Begin(event) : open_.Find(event.ref);
    if (entry == nullptr) return;
    entry->at[IndexOf(event.moment)] = log_.Now();
    entry->who = event.shard;
    if (event.moment != kAnswered) return;
    log_.Add(*entry);
    open_.End(event.ref);
  }

 private:
  TimelineEntry& Begin(const protocol::PieceEvent& event) {
    TimelineEntry& entry = open_.Begin(event.ref);
    entry.kind = TimelineEntry::Kind::kPiece;
    entry.name = log_.Keep(event.name);
    entry.bytes = event.bytes;
    return entry;
  }

  TimelineLog& log_;
  OpenEntries open_;
};

class RoundTimes final : public protocol::RoundWatch {
 public:
  explicit RoundTimes(TimelineLog& log) : log_(log) {}

  void On(const protocol::RoundEvent& event) override {
    using enum protocol::RoundMoment;
    if (!log_.on()) return open_.Clear();
    TimelineEntry* entry = event.moment == kBegun ? &Begin(event) : open_.Find(event.ref);
    if (entry == nullptr) return;
    entry->at[IndexOf(event.moment)] = log_.Now();
    if (event.moment == kComplete) entry->who = event.last;
    if (event.moment != kAnswered) return;
    // A round that ends in an error was never complete, so it gets no entry.
    if (entry->at[IndexOf(kSummed)] != Time()) log_.Add(*entry);
    open_.End(event.ref);
  }

 private:
  TimelineEntry& Begin(const protocol::RoundEvent& event) {
    TimelineEntry& entry = open_.Begin(event.ref);
    entry.kind = TimelineEntry::Kind::kRound;
    entry.bytes = event.bytes;
    return entry;
  }

  TimelineLog& log_;
  OpenEntries open_;
};

}  // namespace

TimelineLog::TimelineLog(Clock clock, size_t entries_max)
    : clock_(std::move(clock)), entries_max_(entries_max) {}

TimelineLog::~TimelineLog() = default;

void TimelineLog::SetOn(bool on) {
  if (on) {
    MutexLock lock(mutex_);
    entries_.reserve(entries_max_);
  }
  on_.store(on, std::memory_order_relaxed);
}

void TimelineLog::Add(const TimelineEntry& entry) noexcept {
  MutexLock lock(mutex_);
  if (entries_.size() < std::min(entries_max_, entries_.capacity())) {
    entries_.push_back(entry);
  } else {
    ++lost_;
  }
}

const std::string* TimelineLog::Keep(std::string_view name) {
  MutexLock lock(mutex_);
  auto found = names_.find(name);
  if (found == names_.end()) found = names_.emplace(name).first;
  return &*found;
}

TimelineLog::Taken TimelineLog::Take(size_t count_max) {
  Taken taken;
  taken.entries.reserve(count_max);
  MutexLock lock(mutex_);
  taken.lost = std::exchange(lost_, 0);
  auto end = entries_.begin() + static_cast<ptrdiff_t>(std::min(count_max, entries_.size()));
  taken.entries.assign(entries_.begin(), end);
  entries_.erase(entries_.begin(), end);
  return taken;
}

protocol::PieceWatch* TimelineLog::NewPieceWatch() {
  return piece_watches_.emplace_back(std::make_unique<PieceTimes>(*this)).get();
}

protocol::RoundWatch* TimelineLog::NewRoundWatch() {
  return round_watches_.emplace_back(std::make_unique<RoundTimes>(*this)).get();
}

}  // namespace byteps::runtime
