// What a user asks of a worker, and what comes of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/slot_set.h"
#include "src/base/status.h"
#include "src/base/time.h"
#include "src/wire/control.h"

namespace byteps::protocol {

using OperationId = uint64_t;

// Its memory belongs to the user and is borrowed until the operation has ended.
struct Operation {
  OperationId id = 0;  // the driver's number, of no other open operation
  std::string name;
  wire::TensorSpec spec;
  uint64_t rows = 0;  // allgather, alltoall: this rank's first dimension
  const std::byte* input = nullptr;
  // As large as input, the same or apart from it; unused by allgather and alltoall. Reducescatter:
  // this rank's rows, which may lie in their place in the input.
  std::byte* output = nullptr;
  Memory memory = Memory::kHost;  // of both; another use of the name may have another one
  int32_t priority = 0;
  Duration limit{};  // of its own, from when the driver takes it; zero: the driver's
  // Alltoall: rows for each rank of the process set, `rows` in all. None: equal parts.
  std::vector<uint64_t> splits;
};

// Why an operation that has not ended shall end in an error.
struct TooLate {
  std::string why;        // "rank 0 has waited too long"
  std::string others;     // what the ranks do that keep it waiting; empty: not known
  bool join_too = false;  // also a join, which otherwise lasts as long as others have data
};

// How an operation ended.
struct Outcome {
  Status status;
  TensorId tensor = UINT32_MAX;  // whose use it was, and which; UINT32_MAX: it had no number
  uint64_t round = 0;
  Time begun{};  // when its driver took it and saw it end; the epoch: not known
  Time ended{};
  uint32_t members = 0;  // ranks whose contributions are in every part of the result
  Receipt ranks;         // which these are; none in a job of one
  Receipt receipt;       // their contributors, by slot
  bool mixed = false;    // some parts have more: a member was lost meanwhile
  // Allgather: the rows of all ranks, rank after rank. Alltoall: those for this one.
  std::unique_ptr<std::byte[]> gathered;
  uint64_t gathered_bytes = 0;
  uint64_t rows = 0;                     // join: the rank that joined last
  std::vector<int64_t> received_splits;  // of both: the rows from each rank of the process set

  // Parts of the result have this receipt, or (`more`) at least this one.
  void Add(const Receipt& part, bool more) {
    mixed = NarrowReceipt(receipt, part) || more || mixed;
  }
};

}  // namespace byteps::protocol
