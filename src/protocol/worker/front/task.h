// A task is an operation on its way along its path, with the memory that it works on. The front
// walks the task. The lanes only ask where the bytes of a piece lie.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "src/operations/row.h"
#include "src/protocol/arithmetic.h"
#include "src/protocol/data_path.h"
#include "src/protocol/worker/exchange/deal.h"
#include "src/protocol/worker/exchange/exchange.h"
#include "src/protocol/worker/exchange/operation.h"
#include "src/protocol/worker/front/copies.h"
#include "src/protocol/worker/front/placed_sets.h"

namespace byteps::protocol {

struct Task final : SpanSource {
  // An error, and whether only this rank sees it. If only this rank sees it, the others must be
  // told.
  struct Trouble {
    Status status;
    bool only_here = false;
  };

  // The task borrows all arguments except `what`.
  Task(Operation what, const wire::TensorSpec& spec, const PlacedSet& process_set,
       const Deal& tensor_deal);

  // MakeTable makes the table of sizes, which is exchanged first. LayOut decides where all bytes
  // lie, and makes the memory of a result that has none of the user's; see operations/row.h.
  void MakeTable();
  Trouble LayOut(uint64_t result_bytes_max);
  // Plans the copy before the exchange. It copies this rank's part of a result, input that the
  // exchange would overwrite, or the result of a root, which no other rank sends to it.
  Trouble PlanCopy(Copy& copy);
  // Makes the result in a job of one, where the input is the result.
  Trouble KeepAlone(Arithmetic& arithmetic);
  // Fills in the outcome, because the result is here.
  void Finish();
  // Returns an error if a needed part is missing from the result. The receipts are the same on
  // every rank, and so is this error.
  Status CheckReceipt() const;

  Spans SpansOf(uint32_t number) const override;
  Spans SpansOfPlace(uint32_t number, uint32_t place) const override;

  Operation operation;
  const operations::Row& row;
  const PlacedSet& set;
  const Deal& deal;
  operations::Work work;

  std::span<const Stage> path;
  size_t at = 0;  // index into `path`
  Stage stage() const { return path[at]; }

  std::vector<uint64_t> table;              // what the ranks tell each other before the exchange
  std::unique_ptr<std::byte[]> kept_input;  // the input, where a first answer would overwrite it
  operations::Layout layout;
  Outcome outcome;

  uint64_t exchange = 0;  // serial of the exchange that is open at the lanes; 0: none is open
  // The error in which the operation ends when no lane touches its memory any more.
  std::optional<Status> withdrawn;

  bool seen = false;      // a look for operations that do not end has seen it
  bool reported = false;  // it was reported as one that does not end

 private:
  std::vector<bool> WhoTakesPart();
  Trouble TakeRoom();
  Trouble KeepInput();

  std::vector<uint32_t> without_;  // ranks that take no part although their contributors do
};

}  // namespace byteps::protocol
