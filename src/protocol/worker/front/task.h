// A task: an operation on its way along its path, with the memory it works on. The front walks it;
// the lanes only ask where the bytes of a piece lie.
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
  // What went wrong, and whether only this rank sees it: then the others must be told.
  struct Trouble {
    Status status;
    bool only_here = false;
  };

  // All but `what` is borrowed.
  Task(Operation what, const wire::TensorSpec& spec, const PlacedSet& process_set,
       const Deal& tensor_deal);

  // Memory that is filled in before an exchange, or in its place; see operations/row.h.
  void MakeTable();
  Trouble LayOut(uint64_t result_bytes_max);
  // What has to be copied before the exchange: the own part of a result, input that the exchange
  // would overwrite, or the result of a root, which nobody sends to it.
  Trouble PlanCopy(Copy& copy);
  // A job of one: the input is the result.
  Trouble KeepAlone(Arithmetic& arithmetic);
  // The result is here.
  void Finish();
  // A result in which somebody's part is missing is none. The receipts are the same on every rank,
  // and so is this error.
  Status CheckReceipt() const;

  Spans SpansOf(uint32_t number) const override;
  Spans SpansOfPlace(uint32_t number, uint32_t place) const override;

  Operation operation;
  const operations::Row& row;
  const PlacedSet& set;
  const Deal& deal;
  operations::Work work;

  std::span<const Stage> path;
  size_t at = 0;  // of `path`
  Stage stage() const { return path[at]; }

  std::vector<uint64_t> table;              // what the ranks tell each other first
  std::unique_ptr<std::byte[]> kept_input;  // what answers of a first attempt would overwrite
  operations::Layout layout;
  Outcome outcome;

  uint64_t exchange = 0;  // the serial of the one that is open at the lanes; 0: none is
  // It ends like this when no lane touches its memory any more.
  std::optional<Status> withdrawn;

  bool seen = false;      // at a look for operations that do not end
  bool reported = false;  // as one of these

 private:
  std::vector<bool> WhoTakesPart();
  Trouble TakeRoom();
  Trouble KeepInput();

  std::vector<uint32_t> without_;  // ranks that take no part, unlike their contributors
};

}  // namespace byteps::protocol
