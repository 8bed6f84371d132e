// Carries operations out by their rows alone, without a protocol. The test combines the bytes that
// all ranks push of each piece, and hands each rank the bytes that it wants. In the end every rank
// has the result that the operation promises. At most one answer has written each byte; only a byte
// that was there before was written by none.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include "src/operations/check.h"
#include "src/operations/row.h"
#include "src/operations/sizes.h"

namespace byteps::operations {
namespace {

using Bytes = std::vector<std::byte>;
using wire::Op;

constexpr uint64_t kResultBytesMax = 1 << 20;

// A rank and the memory of its user.
struct Rank {
  uint32_t place = 0;
  uint64_t rows = 0;
  std::vector<uint64_t> splits;
  Bytes input;
  Bytes output;
  std::vector<uint64_t> table;
  Bytes gathered;
  std::vector<int> written;  // how often answers have written each byte of the result
  std::vector<bool> kept;    // the bytes of the result that came from this rank's own input
  Layout layout;
};

class Job {
 public:
  Job(const wire::TensorSpec& spec, const std::vector<uint32_t>& ranks) : spec_(spec) {
    for (uint32_t place = 0; place < ranks.size(); ++place) {
      ranks_.push_back({.place = place});
      numbers_.push_back(ranks[place]);
    }
    present.assign(ranks.size(), true);
  }
  // Makes some ranks one contributor, whose number is its lowest place.
  void Group() {
    std::vector<Slot> lowest(3, kNoSlot);
    for (uint32_t place = 0; place < size(); ++place) {
      Slot& slot = lowest[*rc::gen::inRange<size_t>(0, lowest.size())];
      slot = std::min(slot, place);
      slots_.push_back(slot);
    }
    turns_ = TurnsByContributor(slots_);
  }

  const Row& row() const { return RowOf(spec_.op); }
  Rank& operator[](size_t place) { return ranks_[place]; }
  size_t size() const { return ranks_.size(); }

  Work WorkOf(Rank& rank) {
    return {.spec = spec_,
            .name = "x",
            .place = {numbers_, rank.place, turns_},
            .input = rank.input.data(),
            .output = rank.output.data(),
            .rows = rank.rows,
            .splits = rank.splits,
            .table = rank.table,
            .gathered = rank.gathered.data()};
  }

  void Begin() {
    for (Rank& rank : ranks_) {
      Work work = WorkOf(rank);
      rank.input.resize(InputBytes(spec_, rank.rows).value());
      for (size_t i = 0; i < rank.input.size(); ++i) {
        rank.input[i] = static_cast<std::byte>(rank.place * 50 + i % 47 + 1);
      }
      work.input = rank.input.data();
      rank.output.resize(row().output(work).bytes);
      work.output = rank.output.data();
      RC_ASSERT(CheckArguments(work).ok());
      RC_ASSERT(CheckPlace(work, rank.splits).ok());
    }
  }

  // All ranks that are present carry the operation out.
  void Play() {
    Group();
    Begin();
    if (row().sizes_first) Tell();
    for (Rank& rank : ranks_) {
      if (present[rank.place]) LayOut(rank);
    }
    Rank& first = *std::ranges::find_if(ranks_, [&](Rank& rank) { return present[rank.place]; });
    Cut cut = Cut::Make(first.layout.extent, 64).value();
    for (Rank& rank : ranks_) {
      RC_ASSERT(!present[rank.place] || cut.Is(rank.layout.extent, 64));
    }
    for (uint32_t i = 0; i < cut.count(); ++i) {
      const Combine combine = CombineOf(spec_);
      Exchange(combine, PresentCount(), [&](Rank& rank) {
        Spans spans = row().spans(WorkOf(rank), cut.Piece(i));
        bool has_all = !spans.push.empty() && spans.push.size() == spans.piece_bytes;
        RC_ASSERT(combine != Combine::kOverlay || !has_all || spans.want.empty());
        return spans;
      });
    }
    for (Rank& rank : ranks_) {
      uint64_t copied = BytesToCopy(WorkOf(rank));
      std::copy_n(rank.input.begin(), copied, rank.output.begin());
      for (uint64_t byte = 0; byte < copied; ++byte) rank.kept[byte] = true;
      for (size_t byte = 0; byte < rank.written.size() && present[rank.place]; ++byte) {
        RC_ASSERT(rank.written[byte] == 1 || (rank.written[byte] == 0 && rank.kept[byte]));
      }
    }
  }

  std::vector<bool> present;

 private:
  void Tell() {
    for (Rank& rank : ranks_) {
      uint64_t count = row().told(ranks_.size());
      rank.table.assign(count * ranks_.size(), 0);
      RC_ASSERT(Told(WorkOf(rank)).size() == count);
      LayOwnNumbers(WorkOf(rank));
    }
    const int least = Whole() ? 1 : 0;  // where nobody lays a number
    Exchange(Combine::kOverlay, least, [&](Rank& rank) { return SpansOfTable(WorkOf(rank)); });
    for (Rank& rank : ranks_) {
      if (present[rank.place]) OrderTable(WorkOf(rank));
    }
  }

  void LayOut(Rank& rank) {
    LaidOut laid = row().lay_out(WorkOf(rank), present, kResultBytesMax);
    RC_ASSERT(laid.status.ok());
    rank.layout = laid.layout;
    rank.gathered.resize(rank.layout.result_bytes);
    RC_ASSERT(row().own_result || rank.gathered.empty());
    rank.written.assign(row().own_result ? rank.gathered.size() : rank.output.size(), 0);
    rank.kept.assign(rank.written.size(), false);
    std::ranges::copy(rank.layout.own,
                      rank.gathered.begin() + static_cast<ptrdiff_t>(rank.layout.own_offset));
    for (size_t i = 0; i < rank.layout.own.size(); ++i) {
      rank.kept[rank.layout.own_offset + i] = true;
    }
  }

  // Exchanges one piece. At least `least` ranks contribute to each byte, or one rank overlays it.
  template <typename SpansOf>
  void Exchange(Combine combine, int least, SpansOf spans_of) {
    Bytes piece;
    std::vector<int> brought;
    std::map<Slot, std::vector<Part>> pushed;
    const bool overlays = combine == Combine::kOverlay;
    for (Rank& rank : ranks_) {
      if (!present[rank.place]) continue;
      Spans spans = spans_of(rank);
      // Bytes that nobody overlays may have any value.
      if (piece.empty()) piece.assign(spans.piece_bytes, overlays ? std::byte{0xa5} : std::byte{0});
      brought.resize(piece.size());
      RC_ASSERT(spans.piece_bytes == piece.size());
      RC_ASSERT(spans.push_offset + spans.push.size() <= piece.size());
      RC_ASSERT(spans.want_offset + spans.want.size() <= piece.size());
      RC_ASSERT(spans.want.empty() || !IsEmpty(spec_, spans));
      RC_ASSERT(overlays || spans.push.size() == piece.size());
      if (!spans.push.empty()) {
        pushed[slots_[rank.place]].push_back({spans.push_offset, spans.push.size()});
      }
      for (size_t i = 0; i < spans.push.size(); ++i) {
        std::byte& byte = piece[spans.push_offset + i];
        int sum = (overlays ? 0 : static_cast<int>(byte)) + static_cast<int>(spans.push[i]);
        byte = static_cast<std::byte>(sum);
        ++brought[spans.push_offset + i];
      }
    }
    for (int times : brought) RC_ASSERT(times >= (overlays ? std::min(least, 1) : least));
    for (int times : brought) RC_ASSERT(times <= (overlays ? 1 : least));
    for (auto& [slot, parts] : pushed) RC_ASSERT(!overlays || !Whole() || IsOneSpan(parts));
    for (Rank& rank : ranks_) {
      if (present[rank.place]) Take(rank, spans_of(rank), piece);
    }
  }

  void Take(Rank& rank, const Spans& spans, const Bytes& piece) {
    for (size_t i = 0; i < spans.want.size(); ++i) {
      spans.want[i] = piece[spans.want_offset + i];
      ByteSpan result = row().own_result ? ByteSpan(rank.gathered) : ByteSpan(rank.output);
      bool inside = Overlap(result, spans.want.subspan(i, 1));
      if (inside) ++rank.written[static_cast<size_t>(&spans.want[i] - result.data())];
      RC_ASSERT(inside || spans.want.data() == Table(rank));
    }
    if (!IsEmpty(spec_, spans) && Whole()) RC_ASSERT(std::ranges::equal(VerdictIn(spans), piece));
  }

  static bool IsOneSpan(std::vector<Part>& parts) {
    std::ranges::sort(parts, {}, &Part::begin);
    auto gap = std::ranges::adjacent_find(
        parts, [](Part one, Part next) { return one.begin + one.bytes != next.begin; });
    return gap == parts.end();
  }
  static const std::byte* Table(const Rank& rank) {
    return reinterpret_cast<const std::byte*>(rank.table.data());
  }
  int PresentCount() const { return static_cast<int>(std::ranges::count(present, true)); }
  bool Whole() const { return PresentCount() == static_cast<int>(present.size()); }

  wire::TensorSpec spec_;
  std::vector<Rank> ranks_;
  std::vector<uint32_t> numbers_;
  std::vector<Slot> slots_;  // by place
  std::vector<uint32_t> turns_;
};

std::vector<uint32_t> AnyRanks() {
  std::vector<uint32_t> ranks;
  uint32_t rank = 0;
  for (auto count = *rc::gen::inRange(1, 6); count > 0; --count) {
    rank += *rc::gen::inRange(0U, 3U);
    ranks.push_back(rank++);
  }
  return ranks;
}

wire::TensorSpec AnySpec(Op op) {
  wire::TensorSpec spec{op, DataType::kUint8, 0, {}};
  for (int i = *rc::gen::inRange(1, 3); i > 0; --i) {
    spec.shape.push_back(*rc::gen::inRange<int64_t>(0, 40));
  }
  return spec;
}

std::byte SumOf(Job& job, size_t at) {
  int sum = 0;
  for (size_t place = 0; place < job.size(); ++place) sum += static_cast<int>(job[place].input[at]);
  return static_cast<std::byte>(sum);
}

RC_GTEST_PROP(SpansTest, AReductionGivesAllRanksAll, ()) {
  Job job(AnySpec(Op::kSum), AnyRanks());
  job.Play();
  for (size_t place = 0; place < job.size(); ++place) {
    for (size_t i = 0; i < job[place].output.size(); ++i) {
      RC_ASSERT(job[place].output[i] == SumOf(job, i));
    }
  }
}

RC_GTEST_PROP(SpansTest, ABroadcastGivesAllRanksTheRoots, ()) {
  std::vector<uint32_t> ranks = AnyRanks();
  auto root = *rc::gen::inRange<size_t>(0, ranks.size());
  wire::TensorSpec spec = AnySpec(Op::kBroadcast);
  spec.root = ranks[root];
  Job job(spec, ranks);
  job.Play();
  for (size_t place = 0; place < job.size(); ++place) {
    RC_ASSERT(job[place].output == job[root].input);
    RC_ASSERT(job.row().needs(job.WorkOf(job[0]), static_cast<uint32_t>(place)) == (place == root));
  }
}

RC_GTEST_PROP(SpansTest, AReducescatterGivesEachRankItsRows, ()) {
  wire::TensorSpec spec = AnySpec(Op::kReducescatter);
  Job job(spec, AnyRanks());
  job.Play();
  size_t begin = 0;
  for (size_t place = 0; place < job.size(); ++place) {
    const Bytes& output = job[place].output;
    for (size_t i = 0; i < output.size(); ++i) RC_ASSERT(output[i] == SumOf(job, begin + i));
    auto rows = static_cast<uint64_t>(spec.shape[0]);
    RC_ASSERT(job[place].layout.rows ==
              RowsBefore(rows, place + 1, job.size()) - RowsBefore(rows, place, job.size()));
    begin += output.size();
  }
  RC_ASSERT(begin == job[0].input.size());
}

// Loses some ranks before they have told anything.
void LoseSome(Job& job) {
  for (size_t place = 1; place < job.size(); ++place) {
    job.present[place] = *rc::gen::inRange(0, 4) > 0;
  }
}

RC_GTEST_PROP(SpansTest, AnAllgatherGivesAllRanksTheRowsOfAll, ()) {
  Job job(AnySpec(Op::kAllgather), AnyRanks());
  for (size_t place = 0; place < job.size(); ++place) {
    job[place].rows = *rc::gen::inRange<uint64_t>(0, 5);
  }
  LoseSome(job);
  job.Play();
  Bytes all;
  std::vector<int64_t> rows;
  for (size_t place = 0; place < job.size(); ++place) {
    Rank& rank = job[place];
    if (job.present[place]) all.insert(all.end(), rank.input.begin(), rank.input.end());
    rows.push_back(job.present[place] ? static_cast<int64_t>(rank.rows) : 0);
    RC_ASSERT(job.row().needs(job.WorkOf(job[0]), static_cast<uint32_t>(place)) ==
              (rows.back() > 0));
  }
  for (size_t place = 0; place < job.size(); ++place) {
    if (!job.present[place]) continue;
    RC_ASSERT(job[place].gathered == all);
    RC_ASSERT(job[place].layout.received_rows == rows);
  }
}

RC_GTEST_PROP(SpansTest, AnAlltoallGivesEachRankWhatIsForIt, ()) {
  wire::TensorSpec spec = AnySpec(Op::kAlltoall);
  Job job(spec, AnyRanks());
  for (size_t place = 0; place < job.size(); ++place) {
    Rank& rank = job[place];
    for (size_t to = 0; to < job.size(); ++to) {
      rank.splits.push_back(*rc::gen::inRange<uint64_t>(0, 4));
      rank.rows += rank.splits.back();
    }
  }
  LoseSome(job);
  job.Play();
  const uint64_t row_bytes = TensorBytes(spec).value();
  const std::vector<uint64_t>& sections = job[0].layout.extent.sections;
  for (size_t to = 0; to < job.size(); ++to) {
    const auto each = static_cast<ptrdiff_t>(sections.size() / job.size());
    const auto first = sections.begin() + static_cast<ptrdiff_t>(to) * each;
    if (!job.present[to]) RC_ASSERT(std::accumulate(first, first + each, uint64_t{0}) == 0u);
    if (!job.present[to]) continue;
    Bytes expected;
    for (size_t from = 0; from < job.size(); ++from) {
      const Rank& sender = job[from];
      uint64_t before = 0;
      for (size_t i = 0; i < to; ++i) before += sender.splits[i];
      auto begin = sender.input.begin() + static_cast<ptrdiff_t>(before * row_bytes);
      uint64_t bytes = job.present[from] ? sender.splits[to] * row_bytes : 0;
      expected.insert(expected.end(), begin, begin + static_cast<ptrdiff_t>(bytes));
    }
    RC_ASSERT(job[to].gathered == expected);
  }
}

TEST(SpansTest, OperationsWithoutATensorAreOnePiece) {
  for (Op op : {Op::kBarrier, Op::kJoin}) {
    wire::TensorSpec spec{op, DataType::kInt64, 0, {}};
    std::vector<uint32_t> ranks = {0, 1};
    uint64_t table[2] = {7, 0};
    Work work{.spec = spec, .name = "x", .place = {ranks, 0}, .table = table};
    Layout layout = RowOf(op).lay_out(work, {true, true}, kResultBytesMax).layout;
    Cut cut = Cut::Make(layout.extent, 64).value();
    ASSERT_EQ(cut.count(), 1u);
    Spans spans = RowOf(op).spans(work, cut.Piece(0));
    EXPECT_EQ(spans.push.size(), RowOf(op).bytes);
    EXPECT_EQ(spans.want.size(), RowOf(op).bytes);
    if (op != Op::kJoin) continue;
    EXPECT_EQ(spans.push.data(), std::as_bytes(std::span(table)).data()) << "its own number";
    EXPECT_EQ(spans.want.data(), std::as_bytes(std::span(table)).data() + 8) << "the last one's";
  }
}

// Every rank sees that a result is too large; only one rank sees that its numbers came back
// changed.
TEST(SpansTest, LayoutsThatCannotBeAreErrors) {
  std::vector<uint32_t> ranks = {0, 1};
  for (Op op : {Op::kAllgather, Op::kAlltoall}) {
    const Row& row = RowOf(op);
    wire::TensorSpec spec{op, DataType::kUint8, 0, {1}};
    std::vector<uint64_t> splits = {3, 4};
    std::vector<uint64_t> table = {7, 9};
    if (row.has_splits) table = {3, 4, 5, 4};
    Work work{.spec = spec,
              .name = "x",
              .place = {ranks, 0},
              .rows = 7,
              .splits = splits,
              .table = table};
    const std::vector<bool> all = {true, true};
    EXPECT_TRUE(row.lay_out(work, all, 16).status.ok());
    LaidOut large = row.lay_out(work, all, 7);
    EXPECT_EQ(large.status.code(), StatusCode::kExhausted);
    EXPECT_FALSE(large.only_here);
    table.back() = UINT64_MAX;
    large = row.lay_out(work, all, UINT64_MAX);
    EXPECT_EQ(large.status.code(), StatusCode::kExhausted);
    EXPECT_FALSE(large.only_here);
    table.back() = 4;
    table.front() = 2;
    LaidOut changed = row.lay_out(work, all, 16);
    EXPECT_EQ(changed.status.code(), StatusCode::kProtocol);
    EXPECT_TRUE(changed.only_here);
  }
}

}  // namespace
}  // namespace byteps::operations
