#include "src/protocol/worker/front/task.h"

#include <algorithm>
#include <new>
#include <string>

#include "src/operations/sizes.h"
#include "src/wire/join_word.h"

namespace byteps::protocol {

Task::Task(Operation what, const wire::TensorSpec& spec, const PlacedSet& process_set,
           const Deal& tensor_deal)
    : operation(std::move(what)),
      row(operations::RowOf(spec.op)),
      set(process_set),
      deal(tensor_deal),
      work{.spec = spec,
           .name = operation.name,
           .place = {process_set.present, process_set.self, process_set.turns},
           .input = operation.input,
           .output = operation.output,
           .rows = operation.rows,
           .splits = operation.splits} {}

Spans Task::SpansOf(uint32_t number) const {
  if (stage() == Stage::kLayout) return operations::SpansOfTable(work);
  return row.spans(work, deal.Piece(number));
}

Spans Task::SpansOfPlace(uint32_t number, uint32_t place) const {
  operations::Work theirs = work;
  theirs.place.self = place;
  // The memory of the other rank is elsewhere. The pointers must not be null, because our own may
  // be null where the other rank has memory.
  static std::byte elsewhere;  // tidy-allow(global): nobody reads or writes it
  theirs.input = theirs.output = theirs.gathered = &elsewhere;
  if (stage() == Stage::kLayout) return operations::SpansOfTable(theirs);
  return row.spans(theirs, deal.Piece(number));
}

void Task::MakeTable() {
  table.assign(work.place.count() * operations::Told(work).size(), 0);
  work.table = table;
  operations::LayOwnNumbers(work);
}

// Returns by place which ranks take part. Returns an empty vector if the operation told no sizes
// first.
std::vector<bool> Task::WhoTakesPart() {
  std::vector<bool> present;
  if (!row.sizes_first) return present;
  present.assign(work.place.count(), true);
  const size_t numbers = table.size() / present.size();
  for (uint32_t place = 0; place < present.size(); ++place) {
    if (outcome.receipt != nullptr) present[place] = outcome.receipt->Contains(set.slot_of[place]);
    std::span<uint64_t> told = std::span(table).subspan(place * numbers, numbers);
    if (told.empty() || told[0] != operations::kTakesNoPart) continue;
    present[place] = false;
    std::ranges::fill(told, 0);
    without_.push_back(set.present[place]);
  }
  return present;
}

Task::Trouble Task::LayOut(uint64_t result_bytes_max) {
  if (row.sizes_first) operations::OrderTable(work);
  const std::vector<bool> present = WhoTakesPart();
  operations::LaidOut laid = row.lay_out(work, present, result_bytes_max);
  if (!laid.status.ok()) return {laid.status, laid.only_here};
  layout = std::move(laid.layout);
  outcome.rows = layout.rows;
  outcome.received_splits = std::move(layout.received_rows);
  if (row.joins) {
    table = {0, 0};  // the word to send is known when the exchange begins
    work.table = table;
  }
  return row.own_result ? TakeRoom() : Trouble();
}

Task::Trouble Task::TakeRoom() {
  uint64_t bytes = layout.result_bytes;
  outcome.gathered_bytes = bytes;
  outcome.gathered.reset(new (std::nothrow) std::byte[bytes]);
  if (outcome.gathered == nullptr) {
    return {
        Status(StatusCode::kExhausted, "no memory for the " + std::to_string(bytes) + " bytes of " +
                                           row.name + " '" + operation.name + "'"),
        true};
  }
  work.gathered = outcome.gathered.get();
  return {};
}

Task::Trouble Task::PlanCopy(Copy& copy) {
  if (row.own_result) {
    copy = {work.gathered + layout.own_offset, layout.own.data(), layout.own.size()};
    return {};
  }
  if (operations::NeedsKeptInput(work)) {
    Trouble kept = KeepInput();
    copy = {kept_input.get(), operation.input, layout.extent.bytes};
    return kept;
  }
  uint64_t bytes = operations::BytesToCopy(work);
  if (operation.input != operation.output) copy = {operation.output, operation.input, bytes};
  return {};
}

Task::Trouble Task::KeepInput() {
  uint64_t bytes = layout.extent.bytes;
  kept_input.reset(new (std::nothrow) std::byte[bytes]);
  if (kept_input == nullptr) {
    return {Status(StatusCode::kExhausted, "no memory to keep the " + std::to_string(bytes) +
                                               " bytes of '" + operation.name +
                                               "', which is atomic and has its result in place"),
            true};
  }
  work.input = kept_input.get();
  return {};
}

Task::Trouble Task::KeepAlone(Arithmetic& arithmetic) {
  outcome.rows = row.joins ? work.place.rank() : operation.rows;
  outcome.any_layout = operation.spec.codec == 0;
  if (row.own_result) {
    uint64_t bytes = operations::InputBytes(work.spec, operation.rows).value_or(0);
    layout.own = ConstByteSpan(operation.input, bytes);
    layout.result_bytes = bytes;
    outcome.received_splits = {static_cast<int64_t>(operation.rows)};
    Trouble room = TakeRoom();
    if (room.status.ok()) arithmetic.Copy(work.gathered, operation.input, bytes);
    return room;
  }
  uint64_t bytes = operations::BytesToCopyAlone(work);
  if (operation.input != operation.output) {
    arithmetic.Copy(operation.output, operation.input, bytes);
  }
  if (!row.joins) outcome.rows = row.lay_out(work, {true}, bytes).layout.rows;
  return {};
}

void Task::Finish() {
  if (row.joins) outcome.rows = wire::RankOfJoin(table[1]);
  outcome.ranks = set.RanksIn(outcome.receipt);
  if (!without_.empty()) {
    auto ranks = std::make_shared<SlotSet>(*outcome.ranks);
    for (uint32_t rank : without_) ranks->Remove(rank);
    outcome.ranks = std::move(ranks);
  }
  outcome.members = outcome.ranks->count();
  const wire::TensorSpec& spec = operation.spec;
  outcome.any_layout =
      !outcome.mixed &&
      plan::IsOnAnyLayout(set.sum_bits, operations::CombineOf(spec), spec.dtype, spec.codec != 0);
}

Status Task::CheckReceipt() const {
  const Receipt& receipt = outcome.receipt;
  for (uint32_t place = 0; receipt != nullptr && place < work.place.count(); ++place) {
    if (!row.needs(work, place) || receipt->Contains(set.slot_of[place])) continue;
    return {StatusCode::kPeerLost, std::string(row.name) + " '" + operation.name + "': rank " +
                                       std::to_string(set.present[place]) +
                                       " was lost before all of its part had arrived; repeat the "
                                       "operation without it"};
  }
  return Status::Ok();
}

}  // namespace byteps::protocol
