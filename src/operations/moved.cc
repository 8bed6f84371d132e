#include "src/operations/moved.h"

#include <algorithm>
#include <bit>

#include "src/operations/sizes.h"

namespace byteps::operations {
namespace {

// Ranks send tables as they lie in memory, and the wire is little-endian.
static_assert(std::endian::native == std::endian::little);

// REQUIRES: CheckArguments has accepted the arguments.
uint64_t BytesOf(const wire::TensorSpec& spec) { return TensorBytes(spec).value_or(0); }

// Returns the bytes from the begin of the scattered tensor to the rows of the rank at `place`.
uint64_t BytesBefore(const Work& work, uint64_t place) {
  auto rows = static_cast<uint64_t>(work.spec.shape[0]);
  uint64_t row_bytes = rows == 0 ? 0 : BytesOf(work.spec) / rows;
  return RowsBefore(rows, place, work.place.count()) * row_bytes;
}

LaidOut Refused(StatusCode code, const std::string& text, bool only_here) {
  LaidOut laid;
  laid.status = Status(code, text);
  laid.only_here = only_here;
  return laid;
}

// Returns whether the table still holds the numbers that this rank told.
bool OwnNumbersAreBack(const Work& work) {
  std::span<const uint64_t> own = Told(work);
  auto back = work.table.begin() + static_cast<ptrdiff_t>(work.place.self * own.size());
  return std::equal(own.begin(), own.end(), back);
}

// Writes zeros in place of the numbers of ranks that are lost or have joined, because nobody laid
// numbers there.
void ZeroOfTheAbsent(const Work& work, const std::vector<bool>& present) {
  size_t numbers = work.table.size() / work.place.count();
  for (uint32_t place = 0; place < work.place.count(); ++place) {
    if (present[place]) continue;
    std::ranges::fill(work.table.subspan(place * numbers, numbers), 0);
  }
}

// Adds up the rows that the ranks from place `begin` to `end`, without the last, have told.
uint64_t RowsOf(const Work& work, uint32_t begin, uint32_t end) {
  uint64_t rows = 0;
  for (uint32_t place = begin; place < end; ++place) rows += work.table[place];
  return rows;
}

// Returns the number of an alltoall's sections for one receiver: one for each run of senders, and
// one more, because the receiver's own run has a section before the receiver and one behind it.
uint32_t SectionsOfReceiver(const Place& place) { return place.RunCount() + 1; }

PlaceRun SendersOf(const Place& place, uint32_t receiver, uint32_t section) {
  const uint32_t own = place.RunOf(receiver);
  PlaceRun senders = place.Run(section <= own ? section : section - 1);
  if (section == own) senders.end = receiver;
  if (section == own + 1) senders.begin = receiver + 1;
  return senders;
}

}  // namespace

Part PartIn(uint64_t offset, uint32_t bytes, uint64_t own_begin, uint64_t own_end) {
  uint64_t begin = std::clamp(offset, own_begin, own_end);
  return {begin, std::clamp(offset + bytes, own_begin, own_end) - begin};
}

std::string Called(const Work& work) {
  return NameOf(work.spec.op) + (" '" + std::string(work.name)) + "'";
}

LaidOut LayOutScatter(const Work& work, const std::vector<bool>&, uint64_t) {
  LaidOut laid;
  Layout& layout = laid.layout;
  layout.extent.bytes = BytesOf(work.spec);
  for (uint32_t place = 0; place < work.place.count(); ++place) {
    layout.extent.sections.push_back(BytesBefore(work, place + 1) - BytesBefore(work, place));
  }
  auto rows = static_cast<uint64_t>(work.spec.shape[0]);
  layout.rows = RowsBefore(rows, work.place.self + 1, work.place.count()) -
                RowsBefore(rows, work.place.self, work.place.count());
  return laid;
}

Part OutputOfScatter(const Work& work) {
  uint64_t begin = BytesBefore(work, work.place.self);
  return {begin, BytesBefore(work, work.place.self + 1) - begin};
}

// A section has the rows of one receiver; every rank pushes the whole section.
Spans SpansOfScatter(const Work& work, const plan::SectionPiece& piece) {
  Spans spans;
  spans.piece_bytes = piece.bytes;
  if (piece.bytes == 0) return spans;
  uint64_t offset = BytesBefore(work, piece.section) + piece.offset;
  spans.push = ConstByteSpan(work.input + offset, piece.bytes);
  if (piece.section == work.place.self) {
    spans.want = ByteSpan(work.output + piece.offset, piece.bytes);
  }
  return spans;
}

LaidOut LayOutGather(const Work& work, const std::vector<bool>& present, uint64_t most) {
  ZeroOfTheAbsent(work, present);
  const uint64_t row_bytes = BytesOf(work.spec);
  LaidOut laid;
  Layout& layout = laid.layout;
  uint64_t rows_before = 0;
  for (uint32_t place = 0; place < work.place.count(); ++place) {
    if (place == work.place.self) rows_before = layout.rows;
    layout.rows = Plus(layout.rows, work.table[place]);
    layout.received_rows.push_back(static_cast<int64_t>(work.table[place]));
  }
  std::optional<uint64_t> bytes = RowsBytes(layout.rows, row_bytes);
  if (!bytes.has_value() || *bytes > most) {
    return Refused(StatusCode::kExhausted,
                   Called(work) + " has " + std::to_string(layout.rows) + " rows of " +
                       std::to_string(row_bytes) + " bytes in all, more than a result may have",
                   false);
  }
  if (!OwnNumbersAreBack(work)) {
    return Refused(StatusCode::kProtocol,
                   "the table of rows of " + Called(work) + " came back with other own rows", true);
  }
  layout.extent.bytes = layout.result_bytes = *bytes;
  const uint32_t runs = work.place.RunCount();
  for (uint32_t number = 0; runs > 1 && number < runs; ++number) {
    const PlaceRun run = work.place.Run(number);
    layout.extent.sections.push_back(RowsOf(work, run.begin, run.end) * row_bytes);
  }
  layout.own = ConstByteSpan(work.input, work.rows * row_bytes);
  layout.own_offset = rows_before * row_bytes;
  return laid;
}

// The pieces cover the result; a rank pushes the part of its own rows that lies in a piece. A
// section has the rows of one run of places.
Spans SpansOfGather(const Work& work, const plan::SectionPiece& piece) {
  const uint64_t row_bytes = BytesOf(work.spec);
  const uint64_t own_begin = RowsOf(work, 0, work.place.self) * row_bytes;
  const uint64_t own_bytes = work.table[work.place.self] * row_bytes;
  const uint64_t offset =
      piece.offset + RowsOf(work, 0, work.place.Run(piece.section).begin) * row_bytes;
  Part part = PartIn(offset, piece.bytes, own_begin, own_begin + own_bytes);
  Spans spans;
  spans.piece_bytes = piece.bytes;
  if (part.bytes > 0) {
    spans.push_offset = static_cast<uint32_t>(part.begin - offset);
    spans.push = ConstByteSpan(work.input + (part.begin - own_begin), part.bytes);
  }
  // A piece that has only this rank's rows was copied when the result was laid out.
  if (spans.push.size() == piece.bytes) return spans;
  spans.want = ByteSpan(work.gathered + offset, piece.bytes);
  return spans;
}

bool BringsGathered(const Work& work, uint32_t place) { return work.table[place] > 0; }

// A rank sends neither the rows for itself nor the rows for a rank that takes no part.
LaidOut LayOutAlltoall(const Work& work, const std::vector<bool>& present, uint64_t most) {
  ZeroOfTheAbsent(work, present);
  const uint64_t count = work.place.count();
  const uint64_t self = work.place.self;
  const uint64_t row_bytes = BytesOf(work.spec);
  auto rows = [&](uint64_t from, uint64_t to) { return work.table[from * count + to]; };
  uint64_t most_rows = 0;
  uint64_t total = 0;
  for (uint64_t to = 0; to < count; ++to) {
    uint64_t received = 0;
    for (uint64_t from = 0; from < count; ++from) received = Plus(received, rows(from, to));
    most_rows = std::max(most_rows, received);
    total = Plus(total, received);
  }
  std::optional<uint64_t> most_bytes = RowsBytes(most_rows, row_bytes);
  bool fits = most_bytes.has_value() && *most_bytes <= most;
  if (!fits || !RowsBytes(total, row_bytes).has_value()) {
    return Refused(StatusCode::kExhausted,
                   Called(work) + " gives one rank " + std::to_string(most_rows) + " rows of " +
                       std::to_string(row_bytes) + " bytes, more than a result may have",
                   false);
  }
  if (!OwnNumbersAreBack(work)) {
    return Refused(StatusCode::kProtocol,
                   "the table of rows of " + Called(work) + " came back with other own splits",
                   true);
  }
  LaidOut laid;
  Layout& layout = laid.layout;
  const uint32_t sections = SectionsOfReceiver(work.place);
  for (uint32_t to = 0; to < count; ++to) {
    for (uint32_t section = 0; section < sections; ++section) {
      const PlaceRun senders = SendersOf(work.place, to, section);
      uint64_t sum = 0;
      for (uint32_t from = senders.begin; present[to] && from < senders.end; ++from) {
        sum += rows(from, to) * row_bytes;
      }
      layout.extent.sections.push_back(sum);
      layout.extent.bytes += sum;
    }
  }
  uint64_t input_rows = 0;
  uint64_t result_rows = 0;
  for (uint64_t i = 0; i < count; ++i) {
    if (i < self) input_rows += work.splits[i];
    if (i < self) result_rows += rows(i, self);
    layout.rows += rows(i, self);
    layout.received_rows.push_back(static_cast<int64_t>(rows(i, self)));
  }
  layout.result_bytes = layout.rows * row_bytes;
  layout.own = ConstByteSpan(work.input + input_rows * row_bytes, work.splits[self] * row_bytes);
  layout.own_offset = result_rows * row_bytes;
  return laid;
}

Spans SpansOfAlltoall(const Work& work, const plan::SectionPiece& piece) {
  const uint64_t count = work.place.count();
  const uint32_t self = work.place.self;
  const uint64_t row_bytes = BytesOf(work.spec);
  const uint32_t sections = SectionsOfReceiver(work.place);
  const uint32_t receiver = piece.section / sections;
  const PlaceRun senders = SendersOf(work.place, receiver, piece.section % sections);
  auto rows_of = [&](uint32_t begin, uint32_t end) {
    uint64_t rows = 0;
    for (uint32_t from = begin; from < end; ++from) rows += work.table[from * count + receiver];
    return rows;
  };
  Spans spans;
  spans.piece_bytes = piece.bytes;
  if (piece.bytes == 0) return spans;
  if (self == receiver) {
    const uint64_t before = rows_of(0, senders.begin) * row_bytes;
    spans.want = ByteSpan(work.gathered + before + piece.offset, piece.bytes);
    return spans;
  }
  if (!senders.Has(self)) return spans;
  const uint64_t own_begin = rows_of(senders.begin, self) * row_bytes;
  const uint64_t own_end = own_begin + rows_of(self, self + 1) * row_bytes;
  Part part = PartIn(piece.offset, piece.bytes, own_begin, own_end);
  if (part.bytes == 0) return spans;
  uint64_t input_rows = 0;
  for (uint64_t to = 0; to < receiver; ++to) input_rows += work.splits[to];
  spans.push_offset = static_cast<uint32_t>(part.begin - piece.offset);
  const std::byte* input = work.input + input_rows * row_bytes;
  spans.push = ConstByteSpan(input + (part.begin - own_begin), part.bytes);
  return spans;
}

bool BringsToOthers(const Work& work, uint32_t place) {
  const uint32_t count = work.place.count();
  for (uint32_t to = 0; to < count; ++to) {
    if (to != place && work.table[uint64_t{place} * count + to] > 0) return true;
  }
  return false;
}

}  // namespace byteps::operations
