// One rank of a machine, as a process of its own, that takes part in random operations.
//
//   machine_member JOB RANK SIZE SEED KILLED KILL_AT [freeze]
//
// All ranks draw the same operations from SEED, and submit them in orders of their own. The ranks
// in KILLED (as bits) kill themselves in batch KILL_AT, or stop. Writes how it ended, in one line.
#include <signal.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "src/base/log.h"
#include "src/machine/serverless/local_engine.h"

namespace byteps::machine {
namespace {

using wire::Op;

constexpr int kBatches = 12;
constexpr Duration kLong = seconds(120);

struct Role {
  uint32_t rank = 0;
  uint32_t size = 0;
  uint32_t seed = 0;
  RankSet killed = 0;
  int kill_at = 0;
  bool freezes = false;  // instead of killing itself
};

// An operation that all ranks draw alike.
struct Draw {
  std::string name;
  Op op = Op::kSum;
  uint32_t process_set = 0;
  size_t count = 0;  // of elements; for each receiver in operations that deal
  uint32_t root = 0;
  int32_t priority = 0;
};

int32_t ValueOf(const Draw& draw, uint32_t rank, size_t index) {
  return static_cast<int32_t>((index * 7 + rank * 3 + draw.count) % 1000);
}

class Call {
 public:
  // `memory`: the memory of the input; null: the call has its own.
  Call(const Draw& draw, const std::vector<uint32_t>& ranks, uint32_t rank,
       runtime::TensorMemory* memory)
      : draw_(draw), ranks_(ranks), rank_(rank), memory_(memory) {
    size_t count = draw.count;
    if (draw.op == Op::kReducescatter) count *= ranks.size();
    if (draw.op == Op::kAlltoall) count = RowsTo(rank) * ranks.size();
    if (draw.op == Op::kAllgather) count = RowsOf(rank);
    if (memory_ == nullptr) {
      own_input_.resize(count);
      input_ = own_input_;
    } else {
      ByteSpan taken = memory_->Take(count * sizeof(int32_t)).value().bytes;
      input_ = {reinterpret_cast<int32_t*>(taken.data()), count};
    }
    for (size_t i = 0; i < count; ++i) input_[i] = ValueOf(draw, rank, i);
    output_.resize(draw.op == Op::kReducescatter ? draw.count : count);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() { GiveBack(); }

  protocol::Operation Make() {
    protocol::Operation operation;
    operation.name = draw_.name;
    operation.priority = draw_.priority;
    operation.spec.op = draw_.op;
    operation.spec.dtype = DataType::kInt32;
    operation.spec.process_set = draw_.process_set;
    operation.spec.root = draw_.root;
    operation.input = reinterpret_cast<const std::byte*>(input_.data());
    operation.output = reinterpret_cast<std::byte*>(output_.data());
    switch (draw_.op) {
      case Op::kAllgather:
      case Op::kAlltoall: operation.rows = input_.size(); break;
      case Op::kBarrier: break;
      default: operation.spec.shape = {static_cast<int64_t>(input_.size())};
    }
    return operation;
  }

  void Done(protocol::Outcome outcome) {
    std::ranges::fill(input_, -1);  // nobody may read it any more
    GiveBack();
    MutexLock lock(mutex_);
    outcome_ = std::move(outcome);
    done_ = true;
    changed_.notify_all();
  }

  // `helps`: does the engine's work meanwhile, like a user's thread that waits.
  Status Wait(runtime::Engine& engine, bool helps) {
    auto deadline = std::chrono::steady_clock::now() + kLong;
    if (helps) engine.Help([this] { return IsDone(); }, deadline);
    MutexLock lock(mutex_);
    while (!done_) {
      if (!lock.WaitUntil(changed_, deadline) && !done_) {
        return {StatusCode::kInternal, "'" + draw_.name + "' does not end"};
      }
    }
    if (outcome_.status.ok() && !IsRight()) {
      return {StatusCode::kInternal, "'" + draw_.name + "' has a wrong result"};
    }
    return outcome_.status;
  }

 private:
  bool IsDone() {
    MutexLock lock(mutex_);
    return done_;
  }
  void GiveBack() {
    if (memory_ != nullptr) memory_->Give(reinterpret_cast<std::byte*>(input_.data()));
    memory_ = nullptr;
    input_ = {};
  }
  size_t RowsOf(uint32_t rank) const { return draw_.count / (rank + 1); }
  size_t RowsTo(uint32_t rank) const { return RowsOf(rank) / ranks_.size(); }

  bool IsRight() const {
    std::vector<int32_t> expected;
    const size_t place =
        static_cast<size_t>(std::find(ranks_.begin(), ranks_.end(), rank_) - ranks_.begin());
    switch (draw_.op) {
      case Op::kBarrier: return true;
      case Op::kBroadcast:
        for (size_t i = 0; i < draw_.count; ++i) expected.push_back(ValueOf(draw_, draw_.root, i));
        return expected == output_;
      case Op::kAllgather:
        for (uint32_t rank : ranks_) {
          for (size_t i = 0; i < RowsOf(rank); ++i) expected.push_back(ValueOf(draw_, rank, i));
        }
        return IsGathered(expected);
      case Op::kAlltoall:
        for (uint32_t rank : ranks_) {
          size_t rows = RowsTo(rank);
          for (size_t i = 0; i < rows; ++i) {
            expected.push_back(ValueOf(draw_, rank, place * rows + i));
          }
        }
        return IsGathered(expected);
      default: break;
    }
    size_t first = draw_.op == Op::kReducescatter ? place * draw_.count : 0;
    for (size_t i = 0; i < draw_.count; ++i) {
      int32_t value = 0;
      for (uint32_t rank : ranks_) {
        int32_t one = ValueOf(draw_, rank, first + i);
        value = draw_.op == Op::kMax ? std::max(value, one) : value + one;
      }
      expected.push_back(value);
    }
    return expected == output_;
  }

  bool IsGathered(const std::vector<int32_t>& expected) const {
    size_t bytes = expected.size() * sizeof(int32_t);
    return outcome_.gathered_bytes == bytes &&
           (bytes == 0 || std::memcmp(outcome_.gathered.get(), expected.data(), bytes) == 0);
  }

  const Draw draw_;
  const std::vector<uint32_t> ranks_;
  const uint32_t rank_;
  runtime::TensorMemory* memory_;  // until the input is given back
  std::vector<int32_t> own_input_;
  std::span<int32_t> input_;
  std::vector<int32_t> output_;
  Mutex mutex_;
  std::condition_variable changed_;
  bool done_ BYTEPS_GUARDED_BY(mutex_) = false;
  protocol::Outcome outcome_;  // nobody changes it once it is done
};

class Member {
 public:
  Member(const Role& role, runtime::Engine& engine, runtime::TensorMemory& memory)
      : role_(role),
        engine_(engine),
        memory_(memory),
        common_(role.seed),
        own_(role.seed * 64 + role.rank) {}

  Status Run() {
    AddSets();
    for (int batch = 0; batch < kBatches; ++batch) {
      Status status = RunBatch(batch);
      if (!status.ok()) return status;
    }
    return JoinUnevenly();
  }

 private:
  void AddSets() {
    sets_.emplace_back();
    for (uint32_t rank = 0; rank < role_.size; ++rank) sets_[0].push_back(rank);
    for (uint32_t number = 1; number <= 3; ++number) {
      std::vector<uint32_t> ranks = sets_[0];
      std::shuffle(ranks.begin(), ranks.end(), common_);
      ranks.resize(1 + common_() % role_.size);
      std::sort(ranks.begin(), ranks.end());
      Status added = engine_.AddProcessSet(number, ranks);
      if (!added.ok()) std::printf("%s\n", added.ToString().c_str());
      sets_.push_back(ranks);
    }
  }

  Draw DrawOne(const std::string& name) {
    static constexpr Op kOps[] = {Op::kSum,           Op::kMax,      Op::kBroadcast, Op::kAllgather,
                                  Op::kReducescatter, Op::kAlltoall, Op::kBarrier,   Op::kSum};
    Draw draw;
    draw.name = name;
    draw.op = kOps[common_() % std::size(kOps)];
    draw.process_set = common_() % 4;
    draw.count = (uint64_t{1} << common_() % 19) + common_() % 50;
    const std::vector<uint32_t>& ranks = sets_[draw.process_set];
    draw.root = draw.op == Op::kBroadcast ? ranks[common_() % ranks.size()] : 0;
    draw.priority = static_cast<int32_t>(common_() % 3);
    return draw;
  }

  Status RunBatch(int batch) {
    std::vector<Draw> draws;
    size_t count = 1 + common_() % 8;
    for (size_t i = 0; i < count; ++i) {
      // Names stand for something else each time.
      draws.push_back(DrawOne("name " + std::to_string(i)));
    }
    std::erase_if(draws, [&](const Draw& draw) {
      const std::vector<uint32_t>& ranks = sets_[draw.process_set];
      return std::find(ranks.begin(), ranks.end(), role_.rank) == ranks.end();
    });
    std::shuffle(draws.begin(), draws.end(), own_);
    bool dies = batch == role_.kill_at && (role_.killed >> role_.rank & 1) != 0;
    size_t last = dies ? own_() % (draws.size() + 1) : draws.size();
    std::vector<std::shared_ptr<Call>> calls;
    for (size_t i = 0; i < last; ++i) {
      for (uint32_t late = own_() % 4 * 500; late > 0; --late) std::this_thread::yield();
      runtime::TensorMemory* memory = own_() % 2 == 0 ? &memory_ : nullptr;
      calls.push_back(
          std::make_shared<Call>(draws[i], sets_[draws[i].process_set], role_.rank, memory));
      engine_.Submit(calls.back()->Make(), [call = calls.back()](protocol::Outcome outcome) {
        call->Done(std::move(outcome));
      });
    }
    if (dies) {
      for (uint32_t late = own_() % 20000; late > 0; --late) std::this_thread::yield();
      raise(role_.freezes ? SIGSTOP : SIGKILL);
    }
    Status first;
    for (const auto& call : calls) {
      Status status = call->Wait(engine_, own_() % 2 == 0);
      if (first.ok()) first = status;
    }
    return first;
  }

  // Rank r has r more steps. A rank without further steps is not in the sums of the others.
  Status JoinUnevenly() {
    for (uint32_t step = 0; step < role_.rank; ++step) {
      Draw draw;
      draw.name = "step";
      draw.count = 1000;
      std::vector<uint32_t> ranks(sets_[0].begin() + step + 1, sets_[0].end());
      Status status = Play(draw, ranks);
      if (!status.ok()) return status;
    }
    Draw join;
    join.name = "join";
    join.op = Op::kBarrier;
    auto call = std::make_shared<Call>(join, sets_[0], role_.rank, nullptr);
    protocol::Operation operation = call->Make();
    operation.spec.op = Op::kJoin;
    operation.spec.dtype = DataType::kInt64;
    engine_.Submit(std::move(operation),
                   [call](protocol::Outcome outcome) { call->Done(std::move(outcome)); });
    Status joined = call->Wait(engine_, true);
    if (!joined.ok()) return joined;
    Draw draw;
    draw.name = "step";
    draw.count = 10;
    return Play(draw, sets_[0]);
  }

  Status Play(const Draw& draw, const std::vector<uint32_t>& ranks) {
    auto call = std::make_shared<Call>(draw, ranks, role_.rank, &memory_);
    engine_.Submit(call->Make(),
                   [call](protocol::Outcome outcome) { call->Done(std::move(outcome)); });
    return call->Wait(engine_, true);
  }

  const Role role_;
  runtime::Engine& engine_;
  runtime::TensorMemory& memory_;
  std::mt19937 common_;
  std::mt19937 own_;
  std::vector<std::vector<uint32_t>> sets_;
};

size_t OpenFds() {
  auto all = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

Status Play(const std::string& job, const Role& role) {
  Log log("member", "fatal", true);
  LocalEngineOptions options;
  options.job = job;
  options.secret = "secret";
  options.rank = role.rank;
  options.size = role.size;
  // Without a freeze the limits are long, because sanitizers are slow. No beat then wakes a rank
  // that no other rank has woken, so a missing wake-up shows.
  if (role.freezes) options.silence_max = seconds(2);
  if (!role.freezes) options.silence_max = options.alive_every = 2 * kLong;
  Result<runtime::StartedEngine> started = StartLocalEngine(options, log);
  if (!started.ok()) return started.status();
  Status status = Member(role, *started->engine, *started->memory).Run();
  started->engine->Leave();
  return status;
}

int Main(char** argv) {
  Role role;
  role.rank = static_cast<uint32_t>(std::atoi(argv[2]));
  role.size = static_cast<uint32_t>(std::atoi(argv[3]));
  role.seed = static_cast<uint32_t>(std::atoi(argv[4]));
  role.killed = static_cast<RankSet>(std::atoi(argv[5]));
  role.kill_at = std::atoi(argv[6]);
  role.freezes = argv[7] != nullptr;
  size_t before = OpenFds();
  Status status = Play(argv[1], role);
  if (status.ok() && OpenFds() != before) status = {StatusCode::kInternal, "a descriptor is left"};
  std::printf("%s\n", status.ToString().c_str());
  return 0;
}

}  // namespace
}  // namespace byteps::machine

int main(int argc, char** argv) { return argc >= 7 ? byteps::machine::Main(argv) : 2; }
