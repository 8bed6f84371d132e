// One rank of a machine, as a process of its own, that may stop itself in a given state.
//
//   local_member JOB RANK SIZE STOPPERS STATE SIGNAL LIMIT_MS
//
// The ranks meet, sum some tensors, and then sum one in which the STOPPERS (ranks as bits) raise
// SIGNAL when they are in STATE, and for which nobody waits longer than LIMIT_MS. Meanwhile the
// others sum a tensor of their own. The process writes a line for each result.
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "src/local/life_watch.h"
#include "src/local/local_for_test.h"
#include "src/local/meeting.h"
#include "src/local/reducer_for_test.h"
#include "src/local/window.h"

namespace byteps::local {
namespace {

constexpr size_t kBytes = size_t{600} << 10;  // several shares

struct Role {
  uint32_t rank = 0, size = 0;
  RankSet stoppers = 0;
  std::string state;
  int signal = 0;
  Duration limit{};
};

void Print(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

size_t OpenFds() {
  auto all = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

class Member {
 public:
  Member(const Role& role, Meeting meeting, const WindowShape& shape)
      : role_(role),
        meeting_(std::move(meeting)),
        shape_(shape),
        window_(meeting_.memory.bytes(), shape, role.rank) {
    auto watch = LifeWatch::Start(std::move(meeting_.life_fds),
                                  [this](uint32_t rank) { window_.MarkLost(rank); });
    if (watch.ok()) watch_ = std::move(watch.value());
  }

  ~Member() { window_.Leave(); }

  Status Run() {
    MaybeStop("met");
    Status status = WarmUp();
    if (!status.ok()) return status;
    RankSet all = (RankSet{1} << role_.size) - 1;
    Result<AdmittedUse> main = Next(all);
    if (!main.ok()) return main.status();
    MaybeStop("admitted");
    status = Fill(main.value(), true);
    if (!status.ok()) return status;
    bool beside = role_.signal == SIGSTOP && !Stops();
    bool done = false;
    if (beside) {
      // This rank does its part of the first tensor now, so that no other rank waits for it.
      Result<bool> could = FinishIfPossible(main.value());
      if (!could.ok()) return could.status();
      done = could.value();
      status = SumBeside(all & ~role_.stoppers);
      if (!status.ok()) return status;
      Print("beside");
    }
    return done ? Status::Ok() : Finish(main.value(), role_.limit);
  }

 private:
  bool Stops() const { return (role_.stoppers >> role_.rank & 1) != 0; }
  void MaybeStop(const std::string& state) const {
    if (Stops() && state == role_.state) raise(role_.signal);
  }

  Status WarmUp() {
    Reducer reducer(window_, shape_, role_.rank);
    for (size_t count : {1, 1000, 1'000'000}) {
      std::vector<float> values(count, static_cast<float>(role_.rank + 1));
      Reduction what;
      what.input = std::as_bytes(std::span(values));
      what.output = std::as_writable_bytes(std::span(values));
      what.ranks = (RankSet{1} << role_.size) - 1;
      Status status = reducer.Run(what, In(kLong));
      if (!status.ok()) return status;
      float sum = static_cast<float>(role_.size * (role_.size + 1) / 2);
      if (values.front() != sum || values.back() != sum) return Wrong();
    }
    last_ = reducer.last_use();
    return Status::Ok();
  }

  static Status Wrong() { return {StatusCode::kInternal, "wrong sum"}; }

  Result<AdmittedUse> Next(RankSet ranks) {
    Time deadline = In(kLong);
    BlockUse use;
    use.ranks = ranks;
    use.bring = ranks;
    use.bytes = kBytes;
    while (true) {
      uint32_t events = window_.Events();
      std::optional<AdmittedUse> at =
          role_.rank == 0 ? window_.Admit(use) : window_.NextAfter(last_).value();
      if (at.has_value()) {
        last_ = at->number;
        return *at;
      }
      Status waited = window_.Wait(events, AdmittedUse(), deadline);
      if (!waited.ok()) return waited;
    }
  }

  Status Fill(const AdmittedUse& at, bool may_stop) {
    Time deadline = In(kLong);
    while (true) {
      uint32_t events = window_.Events();
      if (window_.IsOurs(at)) break;
      Status waited = window_.Wait(events, at, deadline);
      if (!waited.ok()) return waited;
    }
    ByteSpan part = window_.Part(at);
    std::vector<float> values(part.size() / sizeof(float), static_cast<float>(role_.rank + 1));
    std::memcpy(part.data(), values.data(), part.size() / 2);
    if (may_stop) MaybeStop("filling");
    std::memcpy(part.data() + part.size() / 2, values.data(), part.size() - part.size() / 2);
    bool has_share = may_stop && Stops() && role_.state == "summing";
    if (has_share) TakeAShare(at);
    window_.Filled(at);
    window_.WakeSleepers();
    if (has_share) Mark(at, kIsSumming);
    if (may_stop) MaybeStop("filled");
    if (may_stop) MaybeStop("summing");
    return Status::Ok();
  }

  // The rank claims the share before others can take all, and so seems to stop in the middle of
  // SumShare.
  BlockWords& WordsOf(const AdmittedUse& at) {
    return reinterpret_cast<WindowWords*>(meeting_.memory.bytes().data())->blocks[at.block];
  }
  void TakeAShare(const AdmittedUse& at) { WordsOf(at).claimed.fetch_add(1); }
  void Mark(const AdmittedUse& at, uint64_t what) {
    WordsOf(at).marks[role_.rank].mark.store(at.number << 2 | what);
  }

  Status Finish(const AdmittedUse& at, Duration limit) {
    Time deadline = In(limit);
    while (true) {
      uint32_t events = window_.Events();
      if (window_.SumShare(at)) continue;
      window_.WakeSleepers();
      if (window_.decision(at) != Decision::kOpen) break;
      Status waited = window_.Wait(events, at, deadline);
      if (!waited.ok()) return waited;
    }
    if (window_.decision(at) == Decision::kError) return {StatusCode::kInternal, "withdrawn"};
    MaybeStop("decided");
    return ReadResult(at);
  }

  Status ReadResult(const AdmittedUse& at) {
    ConstByteSpan result = window_.ResultOf(at);
    std::vector<float> values(result.size() / sizeof(float));
    std::memcpy(values.data(), result.data(), result.size() / 2);
    MaybeStop("reading");
    std::memcpy(values.data(), result.data(), result.size());
    window_.Release(at);
    window_.WakeSleepers();
    MaybeStop("released");
    float sum = 0;
    for (uint32_t rank = 0; rank < role_.size; ++rank) {
      sum += (at.use.ranks >> rank & 1) != 0 ? static_cast<float>(rank + 1) : 0;
    }
    return values.front() == sum && values.back() == sum ? Status::Ok() : Wrong();
  }

  // Returns true if the use was finished. Returns false if it waits for a rank that has stopped
  // before it brought its part, or with a share.
  Result<bool> FinishIfPossible(const AdmittedUse& at) {
    bool has_parts = role_.state != "admitted" && role_.state != "filling";
    if (has_parts && role_.state != "summing") {
      Status status = Finish(at, kLong);
      if (!status.ok()) return status;
      return true;
    }
    if (!has_parts) return false;
    Time deadline = In(kLong);
    while (true) {
      uint32_t events = window_.Events();
      if (window_.SumShare(at)) continue;
      if ((window_.Awaited(at) & ~role_.stoppers) == 0) return false;
      // Only the carrier gets an event when others owe less, so this rank looks again now and then.
      Status waited = window_.Wait(events, at, In(milliseconds(100)));
      bool late = std::chrono::steady_clock::now() >= deadline;
      if (!waited.ok() && (late || waited.code() != StatusCode::kDeadlineExceeded)) return waited;
    }
  }

  Status SumBeside(RankSet others) {
    Result<AdmittedUse> at = Next(others);
    if (!at.ok()) return at.status();
    Status filled = Fill(at.value(), false);
    return filled.ok() ? Finish(at.value(), kLong) : filled;
  }

  const Role role_;
  Meeting meeting_;
  const WindowShape shape_;
  Window window_;
  std::unique_ptr<LifeWatch> watch_;
  uint64_t last_ = 0;
};

Status Play(const std::string& job, const Role& role) {
  WindowShape shape = {.ranks = role.size, .blocks = 2, .block_bytes = size_t{1} << 20};
  MeetingOptions options;
  options.job = job;
  options.secret = "secret";
  options.rank = role.rank;
  options.size = role.size;
  options.memory_bytes = Window::BytesFor(shape);
  Result<Meeting> meeting = Meet(options, In(kLong));
  if (!meeting.ok()) return meeting.status();
  return Member(role, std::move(meeting.value()), shape).Run();
}

int Main(char** argv) {
  Role role;
  role.rank = static_cast<uint32_t>(std::atoi(argv[2]));
  role.size = static_cast<uint32_t>(std::atoi(argv[3]));
  role.stoppers = static_cast<RankSet>(std::atoi(argv[4]));
  role.state = argv[5];
  role.signal = std::atoi(argv[6]);
  role.limit = milliseconds(std::atoi(argv[7]));
  size_t before = OpenFds();
  Status status = Play(argv[1], role);
  if (OpenFds() != before) status = {StatusCode::kInternal, "a descriptor is left"};
  Print(status.ToString());
  return 0;
}

}  // namespace
}  // namespace byteps::local

int main(int argc, char** argv) { return argc == 8 ? byteps::local::Main(argv) : 2; }
