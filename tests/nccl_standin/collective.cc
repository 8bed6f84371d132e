#include "tests/nccl_standin/collective.h"

#include <algorithm>
#include <cstring>

#include "src/base/types.h"
#include "src/device/nccl/library_api.h"
#include "src/kernels/kernels.h"

namespace byteps::standin {
namespace {

namespace nccl = device::nccl;

DataType TypeOf(int type) {
  switch (type) {
    case nccl::kInt8: return DataType::kInt8;
    case nccl::kInt32: return DataType::kInt32;
    case nccl::kInt64: return DataType::kInt64;
    case nccl::kFloat16: return DataType::kFloat16;
    case nccl::kFloat32: return DataType::kFloat32;
    case nccl::kFloat64: return DataType::kFloat64;
    case nccl::kBfloat16: return DataType::kBfloat16;
    default: return DataType::kUint8;
  }
}

Combine OperatorOf(int how) {
  switch (how) {
    case nccl::kProduct: return Combine::kProduct;
    case nccl::kMax: return Combine::kMax;
    case nccl::kMin: return Combine::kMin;
    default: return Combine::kSum;
  }
}

CollectiveKind KindOf(const CollectiveCall& call) { return static_cast<CollectiveKind>(call.kind); }

// Returns how many elements of a reduction's input belong to one share: the part that ends at one
// rank of the ring.
uint64_t ShareCount(const CollectiveCall& call, int size) {
  switch (KindOf(call)) {
    case CollectiveKind::kReduceScatter: return call.count;
    case CollectiveKind::kAllReduce: return (call.count + size - 1) / size;
    default: return call.count;
  }
}

}  // namespace

size_t ElementBytes(int type) {
  const bool is_known = type == nccl::kUint8 || TypeOf(type) != DataType::kUint8;
  return is_known ? SizeOf(TypeOf(type)) : 0;
}

uint64_t InputCount(const CollectiveCall& call, int size) {
  return KindOf(call) == CollectiveKind::kReduceScatter ? call.count * size : call.count;
}

uint64_t OutputCount(const CollectiveCall& call, int size) {
  return KindOf(call) == CollectiveKind::kAllGather ? call.count * size : call.count;
}

// A reduce begins behind its root and ends there; a broadcast begins at its root. The others move
// shares, each once around the ring for each half of an all-reduce.
RingBytes BytesInRing(const CollectiveCall& call, int rank, int size) {
  const size_t bytes = call.count * ElementBytes(call.type);
  const auto hops = static_cast<size_t>(size - 1);
  const bool is_root = rank == call.root;
  switch (KindOf(call)) {
    case CollectiveKind::kReduce:
      return {is_root ? 0 : bytes, rank == (call.root + 1) % size ? 0 : bytes};
    case CollectiveKind::kBroadcast:
      return {(rank + 1) % size == call.root ? 0 : bytes, is_root ? 0 : bytes};
    case CollectiveKind::kAllReduce: {
      const size_t both = 2 * hops * bytes / static_cast<size_t>(size);
      return {both, both};
    }
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllGather: break;
  }
  return {hops * bytes, hops * bytes};
}

bool GroupRank::Step(const CollectiveCall* alike) {
  ++step_;
  memory->own().step = step_;
  memory->Notify();
  auto have_all_come = [&] {
    for (int other = 0; other < size; ++other) {
      const RankPlace& place = memory->of(other);
      if (place.step < step_ || (alike != nullptr && place.call != *alike)) return false;
    }
    return true;
  };
  return memory->Wait(have_all_come, [&] { return aborts.load(); }) && !aborts;
}

bool GroupRank::Run(const CollectiveCall& call, const CollectivePlaces& places) {
  const size_t element = ElementBytes(call.type);
  const uint64_t all = InputCount(call, size);
  const uint64_t chunk = kChunkBytes / element;
  memory->own().call = call;
  for (uint64_t first = 0; first < std::max<uint64_t>(all, 1); first += chunk) {
    const uint64_t count = std::min(chunk, all - first);
    const bool gives = KindOf(call) != CollectiveKind::kBroadcast || rank == call.root;
    if (gives && count > 0) {
      std::memcpy(memory->own().bytes, places.from + first * element, count * element);
    }
    if (!Step(&call)) return false;
    if (count > 0) Take(call, first, count, places.to);
    if (!Step(nullptr)) return false;
  }
  return true;
}

// Takes from a chunk, which begins at the element `first` of the inputs, what this rank gets.
void GroupRank::Take(const CollectiveCall& call, uint64_t first, uint64_t count,
                     unsigned char* to) {
  const size_t element = ElementBytes(call.type);
  if (KindOf(call) == CollectiveKind::kAllGather) {
    for (int other = 0; other < size; ++other) {
      unsigned char* const place = to + (other * call.count + first) * element;
      std::memcpy(place, memory->of(other).bytes, count * element);
    }
    return;
  }
  if (KindOf(call) == CollectiveKind::kBroadcast) {
    std::memcpy(to + first * element, memory->of(call.root).bytes, count * element);
    return;
  }
  const uint64_t in_share = ShareCount(call, size);
  for (uint64_t at = first; at < first + count;) {
    const uint64_t number = at / in_share;
    const uint64_t end = std::min(first + count, (number + 1) * in_share);
    const bool is_reduce = KindOf(call) == CollectiveKind::kReduce;
    const int share = is_reduce ? call.root : static_cast<int>(number);
    const bool is_all = KindOf(call) == CollectiveKind::kAllReduce;
    // A scattered share lies at the beginning of its rank's output.
    const uint64_t shift = is_reduce || is_all ? 0 : number * in_share;
    if (is_all || share == rank)
      Sum(call, share, at - first, end - at, to + (at - shift) * element);
    at = end;
  }
}

// Adds as a ring does: the share begins at the rank behind its own, and ends at its own. For an
// average each rank divides what it brings.
void GroupRank::Sum(const CollectiveCall& call, int share, uint64_t offset, uint64_t count,
                    unsigned char* to) {
  const size_t element = ElementBytes(call.type);
  const uint32_t places[] = {0, 1};
  const kernels::SumTree two(places);
  alignas(64) std::byte sum[kChunkBytes];
  alignas(64) std::byte next[kChunkBytes];
  auto take = [&](int other, std::byte* into) {
    std::memcpy(into, memory->of(other).bytes + offset * element, count * element);
    if (call.how == nccl::kAverage) kernels::Scale(TypeOf(call.type), into, count, 1.0 / size);
  };
  take((share + 1) % size, sum);
  for (int hop = 2; hop <= size; ++hop) {
    take((share + hop) % size, next);
    const std::byte* const inputs[] = {sum, next};
    kernels::Combine(OperatorOf(call.how), TypeOf(call.type), sum, inputs, two, count);
  }
  std::memcpy(to, sum, count * element);
}

}  // namespace byteps::standin
