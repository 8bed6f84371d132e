#include "src/device/group_conformance.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>
#include <filesystem>
#include <thread>

#include "src/device/group_for_test.h"

namespace byteps::device {
namespace {

// Long enough to see that something does not happen.
constexpr auto kAWhile = milliseconds(50);
// For ranks that shall not meet, and for aborts that shall hang.
constexpr GroupLine::Limits kShortMeeting{.meet = milliseconds(60)};
constexpr GroupLine::Limits kShortAbort{.abort = milliseconds(60)};

using Bytes = std::vector<std::byte>;

// All ranks of a group, in this process.
class Ranks {
 public:
  Ranks(GroupUser& user, uint32_t size, const GroupLine::Limits& limits = {}) : user_(user) {
    const GroupId id = user.groups()->NewId().value();
    for (uint32_t rank = 0; rank < size; ++rank) {
      members_.emplace_back(user.device(rank), user.groups(), id, rank, size, limits);
    }
    for (GroupMember& member : members_) {
      EXPECT_TRUE(member.met.Once());
      EXPECT_TRUE(member.met.status().ok()) << member.met.status().ToString();
    }
  }
  // All ranks leave at the same time.
  ~Ranks() {
    std::vector<std::thread> leaving;
    for (GroupMember& member : members_) {
      leaving.emplace_back([&member] { member.line.reset(); });
    }
    for (std::thread& thread : leaving) thread.join();
  }
  uint32_t size() const { return static_cast<uint32_t>(members_.size()); }
  GroupMember& operator[](uint32_t rank) { return members_[rank]; }

  // Gives each rank memory with its input.
  std::vector<std::byte*> Give(const std::vector<Bytes>& inputs) {
    std::vector<std::byte*> memory;
    for (uint32_t rank = 0; rank < size(); ++rank) {
      memory.push_back(user_.NewMemory(rank, inputs[rank].size()));
      user_.Write(memory.back(), inputs[rank]);
    }
    return memory;
  }
  // Lets each rank begin, and waits for all.
  void All(const std::function<void(GroupLine&, uint32_t, GroupLine::Done)>& begin) {
    std::deque<Heard> done(size());
    for (uint32_t rank = 0; rank < size(); ++rank) {
      begin(*members_[rank].line, rank, done[rank].AsDone());
    }
    for (Heard& one : done) {
      ASSERT_TRUE(one.Once());
      ASSERT_TRUE(one.status().ok()) << one.status().ToString();
    }
  }
  void Abort(const Status& why) {
    for (GroupMember& member : members_) member.line->Abort(why);
  }

 private:
  GroupUser& user_;
  std::deque<GroupMember> members_;
};

template <typename T>
Bytes BytesOf(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// Small whole numbers, whose sums are exact in every type. The rank's own: rank + 1, and so on.
Bytes Numbers(DataType type, size_t count, uint32_t rank) {
  std::vector<int> numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = static_cast<int>((rank + i) % 3 + 1);
  auto as = [&]<typename T>(T) { return BytesOf(std::vector<T>(numbers.begin(), numbers.end())); };
  // The top bits of a float16 or bfloat16 with the values 1, 2 and 3.
  auto as_half = [&](uint16_t one, uint16_t two, uint16_t three) {
    const uint16_t bits[] = {0, one, two, three};
    std::vector<uint16_t> halves;
    for (int number : numbers) halves.push_back(bits[number]);
    return BytesOf(halves);
  };
  switch (type) {
    case DataType::kFloat32: return as(float{});
    case DataType::kFloat64: return as(double{});
    case DataType::kFloat16: return as_half(0x3c00, 0x4000, 0x4200);
    case DataType::kBfloat16: return as_half(0x3f80, 0x4000, 0x4040);
    case DataType::kInt32: return as(int32_t{});
    case DataType::kInt64: return as(int64_t{});
    default: return as(uint8_t{});
  }
}

// Returns the value of an element of such numbers, combined.
double ValueAt(DataType type, const std::byte* at) {
  auto as = [&]<typename T>(T value) {
    std::memcpy(&value, at, sizeof(value));
    return static_cast<double>(value);
  };
  auto as_half = [&](int fraction_bits, int bias) {
    uint16_t bits = 0;
    std::memcpy(&bits, at, sizeof(bits));
    const int exponent = (bits >> fraction_bits) - bias;
    const int fraction = bits & ((1 << fraction_bits) - 1);
    return std::ldexp(1.0 + std::ldexp(fraction, -fraction_bits), exponent);
  };
  switch (type) {
    case DataType::kFloat32: return as(float{});
    case DataType::kFloat64: return as(double{});
    case DataType::kFloat16: return as_half(10, 15);
    case DataType::kBfloat16: return as_half(7, 127);
    case DataType::kInt32: return as(int32_t{});
    case DataType::kInt64: return as(int64_t{});
    default: return as(uint8_t{});
  }
}

double Combined(Combine how, size_t element, uint32_t ranks) {
  double value = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const double own = static_cast<double>((rank + element) % 3 + 1);
    if (rank == 0) {
      value = own;
    } else if (how == Combine::kSum) {
      value += own;
    } else if (how == Combine::kProduct) {
      value *= own;
    } else {
      value = how == Combine::kMin ? std::min(value, own) : std::max(value, own);
    }
  }
  return value;
}

void ExpectCombined(const Bytes& got, DataType type, Combine how, uint32_t ranks,
                    size_t first = 0) {
  const size_t element = SizeOf(type);
  for (size_t i = 0; i < got.size() / element; ++i) {
    ASSERT_EQ(ValueAt(type, got.data() + i * element), Combined(how, first + i, ranks))
        << NameOf(type) << " element " << first + i;
  }
}

// Returns whether it becomes true in time.
bool Becomes(const std::function<bool()>& is_true) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!is_true()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

std::vector<GroupRun> EqualRuns(uint32_t ranks, size_t first, size_t bytes) {
  std::vector<GroupRun> runs;
  for (uint32_t rank = 0; rank < ranks; ++rank) runs.push_back({rank, first + rank * bytes, bytes});
  return runs;
}

// Rank 0 of two begins a launch, which hangs, because the other rank does not come.
void GatherAlone(GroupUser& user, Ranks& ranks, Heard& done) {
  const Bytes input = Numbers(DataType::kFloat32, 100, 0);
  const std::vector<std::byte*> memory = ranks.Give({input, input});
  ranks[0].line->Gather(memory[0], EqualRuns(2, 0, 200), done.AsDone());
  ASSERT_TRUE(Becomes([&] { return user.begun() == 1; }));
}

TEST_P(GroupConformance, EveryTypeAndOperatorComesToItsHomesAndBack) {
  constexpr size_t kEach = 700;  // elements of a run
  for (uint32_t size : {2, 3}) {
    Ranks ranks(*user_, size);
    for (int t = 0; t < kDataTypeCount; ++t) {
      const auto type = static_cast<DataType>(t);
      for (Combine how : {Combine::kSum, Combine::kMin, Combine::kMax, Combine::kProduct}) {
        if (!CanReduce(type, how)) continue;
        const size_t run = kEach * SizeOf(type);
        const std::vector<GroupRun> runs = EqualRuns(size, 0, run);
        std::vector<Bytes> inputs;
        for (uint32_t rank = 0; rank < size; ++rank) {
          inputs.push_back(Numbers(type, kEach * size, rank));
        }
        const std::vector<std::byte*> memory = ranks.Give(inputs);
        ranks.All([&](GroupLine& line, uint32_t rank, GroupLine::Done done) {
          line.Reduce(memory[rank], memory[rank], runs, type, how, std::move(done));
        });
        for (uint32_t rank = 0; rank < size; ++rank) {
          ExpectCombined(user_->Read(memory[rank] + rank * run, run), type, how, size,
                         rank * kEach);
        }
        ranks.All([&](GroupLine& line, uint32_t rank, GroupLine::Done done) {
          line.Gather(memory[rank], runs, std::move(done));
        });
        for (std::byte* all : memory) ExpectCombined(user_->Read(all, run * size), type, how, size);
      }
    }
  }
}

TEST_P(GroupConformance, UnequalRunsAndOtherMemoryForTheResult) {
  constexpr uint32_t kSize = 3;
  constexpr size_t kCount = 30000;
  const size_t bytes = kCount * sizeof(float);
  // Rank 1 has two runs, and one of rank 2 is empty. The last bytes belong to nobody.
  const std::vector<GroupRun> runs = {
      {1, 0, 400}, {0, 400, 100000}, {2, 100400, 0}, {1, 100400, 4}, {2, 100404, bytes - 100408}};
  Ranks ranks(*user_, kSize);
  std::vector<Bytes> inputs;
  for (uint32_t rank = 0; rank < kSize; ++rank) {
    inputs.push_back(Numbers(DataType::kFloat32, kCount, rank));
  }
  const std::vector<std::byte*> from = ranks.Give(inputs);
  const std::vector<std::byte*> to = ranks.Give(std::vector<Bytes>(kSize, Bytes(bytes)));
  ranks.All([&](GroupLine& line, uint32_t rank, GroupLine::Done done) {
    line.Reduce(from[rank], to[rank], runs, DataType::kFloat32, Combine::kSum, std::move(done));
  });
  for (const GroupRun& run : runs) {
    ExpectCombined(user_->Read(to[run.home] + run.first, run.bytes), DataType::kFloat32,
                   Combine::kSum, kSize, run.first / sizeof(float));
  }
  ranks.All([&](GroupLine& line, uint32_t rank, GroupLine::Done done) {
    line.Gather(to[rank], runs, std::move(done));
  });
  for (uint32_t rank = 0; rank < kSize; ++rank) {
    EXPECT_EQ(user_->Read(from[rank], bytes), inputs[rank]) << "the inputs stay";
    ExpectCombined(user_->Read(to[rank], bytes - 4), DataType::kFloat32, Combine::kSum, kSize);
  }
}

TEST_P(GroupConformance, AllRanksMayHaveTheWholeSum) {
  constexpr size_t kCount = 20001;
  Ranks ranks(*user_, 3);
  std::vector<Bytes> inputs;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    inputs.push_back(Numbers(DataType::kInt32, kCount, rank));
  }
  const std::vector<std::byte*> memory = ranks.Give(inputs);
  ranks.All([&](GroupLine& line, uint32_t rank, GroupLine::Done done) {
    line.ReduceAll(memory[rank], memory[rank], kCount * 4, DataType::kInt32, Combine::kSum,
                   std::move(done));
  });
  for (std::byte* all : memory) {
    ExpectCombined(user_->Read(all, kCount * 4), DataType::kInt32, Combine::kSum, 3);
  }
}

// The halves of these numbers are exact, whoever divides, and when.
TEST_P(GroupConformance, AllRanksMayHaveTheAverage) {
  constexpr size_t kCount = 20001;
  Ranks ranks(*user_, 2);
  for (DataType type :
       {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat32, DataType::kFloat64}) {
    ASSERT_TRUE(CanReduceAll(type, Combine::kAverage));
    const size_t element = SizeOf(type);
    const std::vector<std::byte*> memory =
        ranks.Give({Numbers(type, kCount, 0), Numbers(type, kCount, 1)});
    ranks.All([&](GroupLine& line, uint32_t rank, GroupLine::Done done) {
      line.ReduceAll(memory[rank], memory[rank], kCount * element, type, Combine::kAverage,
                     std::move(done));
    });
    for (std::byte* all : memory) {
      const Bytes got = user_->Read(all, kCount * element);
      for (size_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(2 * ValueAt(type, got.data() + i * element), Combined(Combine::kSum, i, 2))
            << NameOf(type) << " element " << i;
      }
    }
  }
  EXPECT_FALSE(CanReduceAll(DataType::kInt32, Combine::kAverage)) << "the sum may wrap";
}

TEST_P(GroupConformance, AGroupOfOneAndLaunchesOfNothing) {
  Ranks ranks(*user_, 1);
  const Bytes input = Numbers(DataType::kFloat32, 10, 0);
  const std::vector<std::byte*> memory = ranks.Give({input});
  ranks.All([&](GroupLine& line, uint32_t, GroupLine::Done done) {
    line.Reduce(memory[0], memory[0], {{0, 0, 40}}, DataType::kFloat32, Combine::kSum,
                std::move(done));
  });
  ranks.All([&](GroupLine& line, uint32_t, GroupLine::Done done) {
    line.Gather(memory[0], {{0, 0, 0}}, std::move(done));
  });
  EXPECT_EQ(user_->Read(memory[0], 40), input);
}

TEST_P(GroupConformance, LaunchesEndInTheirOrder) {
  constexpr int kLaunches = 40;
  Ranks ranks(*user_, 2);
  const Bytes input = Numbers(DataType::kInt64, 100, 0);
  const std::vector<std::byte*> memory = ranks.Give({input, input});
  Count done;
  std::vector<int> order[2];
  for (uint32_t rank = 0; rank < 2; ++rank) {
    for (int i = 0; i < kLaunches; ++i) {
      ranks[rank].line->ReduceAll(memory[rank], memory[rank], 800, DataType::kInt64, Combine::kMax,
                                  [&, rank, i](const Status& status) {
                                    EXPECT_TRUE(status.ok()) << status.ToString();
                                    order[rank].push_back(i);
                                    done.Add();
                                  });
    }
  }
  ASSERT_TRUE(done.Reaches(2 * kLaunches));
  for (const std::vector<int>& of_rank : order) EXPECT_TRUE(std::ranges::is_sorted(of_rank));
}

TEST_P(GroupConformance, ARankThatDoesNotComeEndsTheMeeting) {
  GroupMember alone(user_->device(0), user_->groups(), user_->groups()->NewId().value(), 0, 2,
                    kShortMeeting);
  ASSERT_TRUE(alone.met.Once());
  EXPECT_EQ(alone.met.status().code(), StatusCode::kDeadlineExceeded);
  for (const std::string& part : {std::string("rank 0 of a group of 2 on cuda:0"),
                                  std::string("60 ms"), user_->groups()->name()}) {
    EXPECT_NE(alone.met.status().message().find(part), std::string::npos)
        << alone.met.status().message();
  }
  alone.line.reset();
  EXPECT_EQ(alone.met.now(), 1);
  EXPECT_EQ(alone.broken.now(), 0);
  EXPECT_EQ(user_->members(), 0);
}

TEST_P(GroupConformance, AMeetingMayBeAborted) {
  GroupMember alone(user_->device(0), user_->groups(), user_->groups()->NewId().value(), 0, 2);
  EXPECT_FALSE(alone.met.Once(kAWhile));
  alone.line->Abort({StatusCode::kPeerLost, "rank 1 is lost"});
  ASSERT_TRUE(alone.met.Once());
  EXPECT_EQ(alone.met.status().code(), StatusCode::kPeerLost);
  alone.line.reset();
  EXPECT_EQ(user_->members(), 0);
}

TEST_P(GroupConformance, ALineThatEndsWhileItMeetsTellsSo) {
  Heard met;
  {
    GroupMember alone(user_->device(0), user_->groups(), user_->groups()->NewId().value(), 0, 2);
    ASSERT_TRUE(Becomes([&] { return user_->members() == 1; }));
    alone.line.reset();
    ASSERT_TRUE(alone.met.Once(milliseconds(0)));
    EXPECT_EQ(alone.met.status().code(), StatusCode::kShutdown);
  }
  EXPECT_EQ(user_->members(), 0);
}

// A rank that does not begin a launch holds the others up until all abort.
TEST_P(GroupConformance, AnAbortEndsALaunchThatHangs) {
  Ranks ranks(*user_, 2);
  const Bytes input = Numbers(DataType::kFloat32, 100, 0);
  const std::vector<std::byte*> memory = ranks.Give({input, input});
  std::deque<Heard> done(4);
  for (Heard& one : done) {  // more than two: some have not begun
    ranks[0].line->Gather(memory[0], EqualRuns(2, 0, 200), one.AsDone());
  }
  ASSERT_TRUE(Becomes([&] { return user_->begun() == 2; }));
  EXPECT_FALSE(done[0].Once(kAWhile));
  ranks.Abort({StatusCode::kPeerLost, "rank 1 is lost"});
  for (Heard& one : done) {
    ASSERT_TRUE(one.Once());
    EXPECT_EQ(one.status().code(), StatusCode::kPeerLost);
  }
  Heard late;
  ranks[0].line->Gather(memory[0], EqualRuns(2, 0, 200), late.AsDone());
  ASSERT_TRUE(late.Once());
  EXPECT_EQ(late.status().code(), StatusCode::kPeerLost);
  EXPECT_EQ(ranks[0].broken.now() + ranks[0].warned.now(), 0);
}

TEST_P(GroupConformance, RanksThatDifferHangUntilTheyAbort) {
  Ranks ranks(*user_, 2);
  const Bytes input = Numbers(DataType::kFloat32, 100, 0);
  const std::vector<std::byte*> memory = ranks.Give({input, input});
  Heard done[2];
  ranks[0].line->ReduceAll(memory[0], memory[0], 400, DataType::kFloat32, Combine::kSum,
                           done[0].AsDone());
  ranks[1].line->ReduceAll(memory[1], memory[1], 396, DataType::kFloat32, Combine::kSum,
                           done[1].AsDone());
  ASSERT_TRUE(Becomes([&] { return user_->begun() == 2; }));
  EXPECT_FALSE(done[0].Once(kAWhile));
  EXPECT_EQ(done[1].now(), 0);
  ranks.Abort({StatusCode::kPeerLost, "why"});
  EXPECT_TRUE(done[0].Once() && done[1].Once());
}

// The owner hears of the error at once, and lets the others abort; only then the launch is over.
TEST_P(GroupConformance, AnErrorOfTheLibraryIsToldBeforeTheLaunchEnds) {
  Ranks ranks(*user_, 2);
  Heard done;
  GatherAlone(*user_, ranks, done);
  user_->HoldAborts();
  user_->Break();
  ASSERT_TRUE(ranks[0].broken.Once());
  EXPECT_EQ(ranks[0].broken.status().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(done.Once(kAWhile)) << "the launch may still use its memory";
  ranks.Abort({StatusCode::kPeerLost, "the group of rank 0 has failed"});
  user_->LetAbortsGo();
  ASSERT_TRUE(done.Once());
  EXPECT_EQ(done.status().code(), StatusCode::kUnavailable) << "the first reason stays";
}

// The other rank may wait in a launch for this one, and only the owner can tell it.
TEST_P(GroupConformance, AnErrorWhileARankLeavesIsToldToo) {
  Ranks ranks(*user_, 2);
  Heard done;
  GatherAlone(*user_, ranks, done);
  ranks[0].line->Leave();
  user_->Break();
  EXPECT_TRUE(ranks[0].broken.Once());
  ranks.Abort({StatusCode::kPeerLost, "the group of rank 0 has failed"});
  ASSERT_TRUE(done.Once());
  EXPECT_EQ(done.status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(ranks[0].ended.Reaches(1));
}

// One of the two ranks has the error.
TEST_P(GroupConformance, AnErrorOfTheDeviceEndsTheLaunch) {
  Ranks ranks(*user_, 2);
  const Bytes input = Numbers(DataType::kFloat32, 100, 0);
  const std::vector<std::byte*> memory = ranks.Give({input, input});
  user_->FailWait();
  Heard done[2];
  for (uint32_t rank : {0, 1}) {
    ranks[rank].line->Gather(memory[rank], EqualRuns(2, 0, 200), done[rank].AsDone());
  }
  ASSERT_TRUE(Becomes([&] { return ranks[0].broken.now() + ranks[1].broken.now() == 1; }));
  const uint32_t failed = ranks[0].broken.now() == 1 ? 0 : 1;
  ranks[1 - failed].line->Abort({StatusCode::kPeerLost, "the other group has failed"});
  ASSERT_TRUE(done[failed].Once());
  EXPECT_EQ(done[failed].status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(done[1 - failed].Once());
}

TEST_P(GroupConformance, AnAbortThatHangsIsToldAndKeepsTheLaunchOpen) {
  Ranks ranks(*user_, 2, kShortAbort);
  Heard done;
  GatherAlone(*user_, ranks, done);
  user_->HoldAborts();
  ranks.Abort({StatusCode::kPeerLost, "rank 1 is lost"});
  ASSERT_TRUE(ranks[0].warned.Once());
  const std::string text = ranks[0].warned.status().message();
  for (const char* part : {"rank 0 of a group of 2 on cuda:0", "60 ms", "stay open"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  EXPECT_EQ(done.now(), 0);
  user_->LetAbortsGo();
  ASSERT_TRUE(done.Once());
  EXPECT_EQ(done.status().code(), StatusCode::kPeerLost);
}

// The end of a line is bounded, whatever the other ranks do.
TEST_P(GroupConformance, ARankThatLeavesAloneDoesNotWaitForEver) {
  const GroupLine::Limits limits{.abort = milliseconds(60), .end = milliseconds(100)};
  Ranks ranks(*user_, 2, limits);
  user_->HoldAborts();
  ranks[0].line.reset();
  EXPECT_EQ(ranks[0].broken.now(), 0);
  user_->LetAbortsGo();
}

size_t CountIn(const char* folder) {
  auto all = std::filesystem::directory_iterator(folder);
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

TEST_P(GroupConformance, AHundredGroupsLeaveNothing) {
  std::byte* const memory[] = {user_->NewMemory(0, 256), user_->NewMemory(1, 256)};
  size_t threads = 0;
  size_t descriptors = 0;
  for (int i = 0; i <= 100; ++i) {
    if (i == 1) {  // behind the first group, which may leave what all groups use
      threads = CountIn("/proc/self/task");
      descriptors = CountIn("/proc/self/fd");
    }
    Ranks ranks(*user_, 2);
    ranks.All([&](GroupLine& line, uint32_t rank, GroupLine::Done done) {
      line.Gather(memory[rank], EqualRuns(2, 0, 128), std::move(done));
    });
    if (i % 3 == 1) ranks.Abort({StatusCode::kPeerLost, "the test aborts"});
  }
  EXPECT_EQ(user_->members(), 0);
  // A thread that has ended may be listed for a while.
  EXPECT_TRUE(Becomes([&] { return CountIn("/proc/self/task") <= threads; }));
  EXPECT_LE(CountIn("/proc/self/fd"), descriptors);
}

}  // namespace
}  // namespace byteps::device
