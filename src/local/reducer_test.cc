#include "src/local/reducer_for_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "src/kernels/kernels.h"
#include "src/local/local_for_test.h"
#include "src/local/shared_memory.h"

namespace byteps::local {
namespace {

constexpr DataType kTypes[] = {DataType::kFloat32,  DataType::kFloat64, DataType::kFloat16,
                               DataType::kBfloat16, DataType::kInt8,    DataType::kInt16,
                               DataType::kInt32,    DataType::kInt64,   DataType::kUint8,
                               DataType::kBool};
constexpr Combine kHows[] = {Combine::kSum, Combine::kMin, Combine::kMax, Combine::kProduct,
                             Combine::kAverage};
using Bytes = std::vector<std::byte>;

// Runs each rank on a thread of its own.
class Machine {
 public:
  Machine(uint32_t ranks, uint32_t blocks, size_t block_bytes)
      : shape_{.ranks = ranks, .blocks = blocks, .block_bytes = block_bytes},
        memory_(
            std::move(SharedMemory::Create(Window::BytesFor(shape_), Access::kReadWrite).value())) {
  }

  using Program = std::function<void(uint32_t rank, Reducer& reducer)>;
  void Run(const Program& program) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
      threads.emplace_back([this, rank, &program] {
        Window window(memory_.bytes(), shape_, rank);
        Reducer reducer(window, shape_, rank);
        program(rank, reducer);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  RankSet all() const { return (RankSet{1} << shape_.ranks) - 1; }

 private:
  WindowShape shape_;
  SharedMemory memory_;
};

Bytes RandomBytesOf(size_t count, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint64_t> numbers(count / 8 + 1);
  for (uint64_t& one : numbers) one = random();
  ConstByteSpan bytes = std::as_bytes(std::span(numbers)).first(count);
  return {bytes.begin(), bytes.end()};
}

struct Case {
  DataType type;
  Combine how;
  size_t elements;
  size_t misplaced;  // bytes
};

Bytes InputOf(const Case& one, uint32_t rank) {
  return RandomBytesOf(one.elements * SizeOf(one.type), rank + 1000 * one.elements);
}

// Combines the inputs in the tree of ranks, in one call.
Bytes Expected(const Case& one, uint32_t ranks) {
  std::vector<Bytes> inputs;
  std::vector<const std::byte*> pointers;
  for (uint32_t rank = 0; rank < ranks; ++rank) inputs.push_back(InputOf(one, rank));
  for (const Bytes& input : inputs) pointers.push_back(input.data());
  std::vector<uint32_t> places(ranks);
  std::iota(places.begin(), places.end(), 0U);
  const kernels::SumTree tree(places);
  Bytes out(one.elements * SizeOf(one.type));
  if (one.how == Combine::kAverage) {
    kernels::Average(one.type, out.data(), pointers, tree, one.elements, ranks);
  } else {
    kernels::Combine(one.how, one.type, out.data(), pointers, tree, one.elements);
  }
  return out;
}

void Check(Machine& machine, const std::vector<Case>& cases, uint32_t ranks) {
  machine.Run([&](uint32_t rank, Reducer& reducer) {
    for (const Case& one : cases) {
      Bytes input = InputOf(one, rank);
      Bytes memory(input.size() + one.misplaced, std::byte{0x55});
      // Every second rank reads and writes the same memory.
      ByteSpan output = ByteSpan(memory).subspan(one.misplaced);
      if (rank % 2 == 1) std::ranges::copy(input, output.begin());
      Reduction what = {rank % 2 == 1 ? ConstByteSpan(output) : ConstByteSpan(input),
                        output,
                        one.type,
                        one.how,
                        ranks,
                        machine.all()};
      Status status = reducer.Run(what, In(kLong));
      ASSERT_TRUE(status.ok()) << status.ToString();
      Bytes got(output.begin(), output.end());
      EXPECT_TRUE(got == Expected(one, ranks))
          << NameOf(one.type) << " how " << static_cast<int>(one.how) << " of " << one.elements
          << " at rank " << rank;
      for (size_t i = 0; i < one.misplaced; ++i) ASSERT_EQ(memory[i], std::byte{0x55});
    }
  });
}

TEST(ReducerTest, AllTypesAndOperationsHaveTheBitsOfOnePassInRankOrder) {
  std::vector<Case> cases;
  for (DataType type : kTypes) {
    for (Combine how : kHows) {
      cases.push_back({type, how, 1, 1});
      cases.push_back({type, how, 777, 3});
      cases.push_back({type, how, 5000, 0});
    }
  }
  Machine machine(3, 4, 4096);
  Check(machine, cases, 3);
}

TEST(ReducerTest, SizesFromOneByteToManyBlocks) {
  std::vector<Case> cases;
  for (size_t bytes : {1, 2, 63, 64, 65, 4095, 4096, 4097, 8191, 8192, 8193, 300'000}) {
    cases.push_back({DataType::kUint8, Combine::kSum, bytes, bytes % 7});
  }
  cases.push_back({DataType::kFloat32, Combine::kSum, 0, 0});
  Machine machine(4, 3, 4096);
  Check(machine, cases, 4);
}

TEST(ReducerTest, SharesOfLargeBlocks) {
  Machine machine(4, 4, size_t{1} << 20);
  Check(machine,
        {{DataType::kFloat32, Combine::kSum, 1'500'001, 4},
         {DataType::kFloat16, Combine::kSum, 300'003, 2},
         {DataType::kFloat64, Combine::kSum, 200'000, 8}},
        4);
}

TEST(ReducerTest, OneRankAloneHasItsInput) {
  Machine machine(1, 2, 4096);
  Check(machine, {{DataType::kInt32, Combine::kSum, 5000, 0}}, 1);
}

TEST(ReducerTest, RanksThatDisagreeAreTold) {
  Machine machine(2, 3, 4096);
  machine.Run([&](uint32_t rank, Reducer& reducer) {
    Bytes bytes(rank == 0 ? 100 : 200);
    Reduction what = {bytes, bytes, DataType::kFloat32, Combine::kSum, 1, machine.all()};
    Status status = reducer.Run(what, In(kLong));
    // The rank that sees the difference names both sides; the other learns that the use is
    // withdrawn.
    if (rank == 1) {
      EXPECT_EQ(status.code(), StatusCode::kMismatch);
      EXPECT_NE(status.message().find("100 bytes"), std::string::npos) << status.message();
      EXPECT_NE(status.message().find("200 bytes"), std::string::npos) << status.message();
    }
    EXPECT_FALSE(status.ok());
  });
}

TEST(ReducerTest, ARankThatDoesNotComeEndsItForTheOthers) {
  Machine machine(3, 3, 4096);
  machine.Run([&](uint32_t rank, Reducer& reducer) {
    if (rank == 2) return;
    Bytes bytes(100);
    Reduction what = {bytes, bytes, DataType::kFloat32, Combine::kSum, 1, machine.all()};
    // Rank 1 would wait longer; rank 0 tells it.
    Status status = reducer.Run(what, In(rank == 0 ? kSoon : kLong));
    EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.ToString();
    if (rank == 0) {
      EXPECT_NE(status.message().find("2"), std::string::npos) << status.message();
    }
  });
}

}  // namespace
}  // namespace byteps::local
