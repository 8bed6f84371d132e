#include "sim/expected.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "src/operations/sizes.h"
#include "src/protocol/kernel_arithmetic.h"

namespace byteps::sim {
namespace {

// Returns the rows for this rank, from each rank.
std::vector<std::byte> ExpectedOfAlltoall(const Script& script, uint64_t seed,
                                          const std::vector<uint32_t>& ranks, size_t place,
                                          uint32_t tensor, uint32_t round) {
  std::vector<std::byte> out;
  for (uint32_t from : ranks) {
    std::vector<std::byte> input = InputOf(script, seed, from, tensor, round);
    std::vector<uint64_t> splits = SplitsOf(script.tensors[tensor], from, round, ranks.size());
    uint64_t rows = std::accumulate(splits.begin(), splits.end(), uint64_t{0});
    uint64_t row_bytes = rows == 0 ? 0 : input.size() / rows;
    auto before = std::accumulate(splits.begin(), splits.begin() + static_cast<ptrdiff_t>(place),
                                  uint64_t{0});
    auto begin = input.begin() + static_cast<ptrdiff_t>(before * row_bytes);
    out.insert(out.end(), begin, begin + static_cast<ptrdiff_t>(splits[place] * row_bytes));
  }
  return out;
}

}  // namespace

std::vector<std::byte> InputOf(const Script& script, uint64_t seed, uint32_t worker,
                               uint32_t tensor, uint32_t round) {
  const ScriptTensor& script_tensor = script.tensors[tensor];
  std::mt19937_64 random(seed * 1000003 + worker * 7919 + tensor * 104729 + round);
  std::vector<std::byte> bytes(InputBytes(script_tensor, script_tensor.spec, worker, round));
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  if (script_tensor.spec.dtype == DataType::kFloat32) {  // mostly ordinary numbers
    for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
      auto value = static_cast<float>(static_cast<int64_t>(random() % 20001) - 10000) / 7.0F;
      std::memcpy(bytes.data() + i, &value, 4);
    }
  }
  return bytes;
}

std::vector<std::byte> ExpectedOf(const Script& script, uint64_t seed, uint32_t worker,
                                  uint32_t tensor, uint32_t round) {
  const wire::TensorSpec spec = SpecOf(script.tensors[tensor], round);
  const std::vector<uint32_t> ranks = WorkersOf(script, spec.process_set);
  auto workers = static_cast<uint32_t>(ranks.size());
  std::vector<std::vector<std::byte>> inputs;
  for (uint32_t w : ranks) inputs.push_back(InputOf(script, seed, w, tensor, round));
  // A worker pushes the contributions of all its ranks; results that are dealt out are dealt to
  // ranks.
  Processes processes(script.cluster.processes, script.cluster.worker_hosts.size());
  uint32_t all_ranks = 0;
  uint32_t ranks_before = 0;
  for (uint32_t w : ranks) {
    if (w < worker) ranks_before += processes.SizeOf(w);
    all_ranks += processes.SizeOf(w);
  }
  auto place = static_cast<size_t>(std::find(ranks.begin(), ranks.end(), worker) - ranks.begin());
  if (spec.op == wire::Op::kBroadcast) {
    return InputOf(script, seed, spec.root, tensor, round);
  }
  if (spec.op == wire::Op::kAlltoall)
    return ExpectedOfAlltoall(script, seed, ranks, place, tensor, round);
  std::vector<std::byte> out = inputs[0];
  if (spec.op == wire::Op::kBarrier) return {};
  if (spec.op == wire::Op::kAllgather) {
    for (uint32_t w = 1; w < workers; ++w) {
      out.insert(out.end(), inputs[w].begin(), inputs[w].end());
    }
    return out;
  }
  std::vector<const std::byte*> pointers;
  for (const auto& input : inputs) pointers.push_back(input.data());
  // A worker pushes one contribution, at the place of its first rank.
  std::vector<uint32_t> places;
  for (uint32_t w : ranks) places.push_back(processes.CarrierOf(w));
  const kernels::SumTree tree(places);
  const bool scatter = spec.op == wire::Op::kReducescatter;
  const wire::Op op = scatter ? spec.combine : spec.op;
  Combine how = op == wire::Op::kMin       ? Combine::kMin
                : op == wire::Op::kMax     ? Combine::kMax
                : op == wire::Op::kProduct ? Combine::kProduct
                                           : Combine::kSum;
  protocol::KernelArithmetic arithmetic;
  if (op == wire::Op::kAverage) {
    arithmetic.Average(spec.dtype, out.data(), pointers, tree, out.size(), all_ranks);
  } else {
    arithmetic.Combine(how, spec.dtype, out.data(), pointers, tree, out.size());
  }
  if (!scatter || out.empty()) return out;
  auto rows = static_cast<uint64_t>(spec.shape[0]);
  auto at = [&](size_t end) {
    return out.begin() + static_cast<ptrdiff_t>(operations::RowsBefore(rows, end, all_ranks) *
                                                (out.size() / rows));
  };
  return {at(ranks_before), at(ranks_before + 1)};
}

}  // namespace byteps::sim
