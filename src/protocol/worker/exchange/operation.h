// The request of a user to a worker, and its outcome.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/slot_set.h"
#include "src/base/status.h"
#include "src/base/time.h"
#include "src/protocol/worker/exchange/device_memory.h"
#include "src/wire/tensor_spec.h"

namespace byteps::protocol {

using OperationId = uint64_t;

// The operation borrows the user's memory until it has ended.
struct Operation {
  OperationId id = 0;  // the driver's number; no other open operation has it
  std::string name;
  wire::TensorSpec spec;
  uint64_t rows = 0;  // allgather, alltoall: this rank's first dimension
  const std::byte* input = nullptr;
  // The memory of the result, as large as input: the same memory as input, or apart from it.
  // Allgather and alltoall do not use it. Reducescatter: this rank's rows, which may lie at their
  // place in the input.
  std::byte* output = nullptr;
  Memory memory = Memory::kHost;  // of input and output; may differ in another use of the name
  DeviceMemory device;            // kDevice: whose memory it is
  int32_t priority = 0;
  Duration limit{};  // own limit, from when the driver takes the operation; zero: the driver's
  // Alltoall: the rows for each rank of the process set; their sum is `rows`. Empty: equal parts.
  std::vector<uint64_t> splits;
  // Not kOk: this rank has no input. The operation ends in this error, on every rank or on none,
  // and nobody touches this rank's input and output.
  Status no_input;
};

// The reason why an open operation shall end in an error.
struct TooLate {
  std::string why;        // "rank 0 has waited too long"
  std::string others;     // what the ranks that keep it waiting do; empty: not known
  bool join_too = false;  // ends also a join, which otherwise lasts while others have data
};

// The end of an operation.
struct Outcome {
  Status status;
  TensorId tensor = UINT32_MAX;  // tensor and round of this use; UINT32_MAX: it had no id
  uint64_t round = 0;
  Time begun{};  // when the driver took it and saw it end; the epoch: not known
  Time ended{};
  uint32_t members = 0;     // ranks whose contributions are in every part of the result
  Receipt ranks;            // these ranks as a set; null in a job of one
  Receipt receipt;          // their contributors, by slot
  bool mixed = false;       // some parts have more members: a member was lost meanwhile
  bool any_layout = false;  // every layout of these ranks gives the same bits; if in doubt, false
  // Allgather: the rows of all ranks, rank after rank. Alltoall: the rows for this rank.
  std::unique_ptr<std::byte[]> gathered;
  uint64_t gathered_bytes = 0;
  uint64_t rows = 0;                     // join: the rank that joined last
  std::vector<int64_t> received_splits;  // allgather, alltoall: rows from each rank of the set

  // Adds parts of the result that have this receipt, or, if `more`, at least this receipt.
  void Add(const Receipt& part, bool more) {
    mixed = NarrowReceipt(receipt, part) || more || mixed;
  }
};

}  // namespace byteps::protocol
