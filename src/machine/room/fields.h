// Turns words into bytes, and bytes into words. Each word has one function, Fields(archive, word),
// which names its fields in their order. A FieldWriter writes them; a FieldReader reads them, and
// refuses values that cannot be true.
//
// Values; one thread at a time.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/machine/room/words.h"
#include "src/wire/bytes.h"
#include "src/wire/control.h"

namespace byteps::machine {

// The limits of what can be true in the memory that the ranks of a machine share.
struct WordLimits {
  uint32_t ranks = 0;
  size_t piece_bytes_max = 0;  // the bytes of a block
};
// The numbers of the slots and the ranks of a job are below this: a set takes a bit for each.
inline constexpr uint32_t kJobNumbersMax = uint32_t{1} << 20;

// A word of this kind, which a writer takes as const.
template <typename Word, typename Kind>
concept WordOf = std::same_as<std::remove_const_t<Word>, Kind>;

class FieldWriter {
 public:
  template <std::unsigned_integral Value>
  void Number(Value value) {
    size_t at = bytes_.size();
    bytes_.resize(at + sizeof(Value));
    wire::PutLittle(bytes_.data() + at, value);
  }
  void Signed(int32_t value) { Number(static_cast<uint32_t>(value)); }
  void Flag(bool value) { Number(static_cast<uint8_t>(value ? 1 : 0)); }
  template <typename Enum>
  void Choice(Enum value, int) {
    Number(static_cast<uint8_t>(value));
  }
  void Text(const std::string& text);
  void Ranks(RankSet ranks) { Number(ranks); }
  void Numbers(const std::vector<uint32_t>& numbers);
  void JobNumbers(const std::vector<uint32_t>& numbers) { Numbers(numbers); }
  void How(const Status& status);
  void Error(const Status& status) { How(status); }
  void Message(const wire::Message& message);
  // `fields` is called for each element; an element has at least `bytes_min` bytes.
  template <typename Element, typename Function>
  void List(const std::vector<Element>& list, size_t bytes_min, const Function& fields) {
    (void)bytes_min;
    Number(static_cast<uint32_t>(list.size()));
    for (const Element& element : list) fields(element);
  }
  // A writer says what it is given.
  template <typename Function>
  void Check(const Function&) {}

  std::vector<std::byte> Take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// After the first value that cannot be true, or that is not there, all others are zero.
class FieldReader {
 public:
  FieldReader(ConstByteSpan bytes, const WordLimits& limits) : rest_(bytes), limits_(limits) {}

  template <std::unsigned_integral Value>
  void Number(Value& value) {
    value = 0;
    if (rest_.size() < sizeof(Value)) return Fail();
    value = wire::GetLittle<Value>(rest_.data());
    rest_ = rest_.subspan(sizeof(Value));
  }
  void Signed(int32_t& value);
  void Flag(bool& value);
  // A number of an enum with `count` values.
  template <typename Enum>
  void Choice(Enum& value, int count) {
    uint8_t number = 0;
    Number(number);
    if (number >= count) {
      number = 0;
      Fail();
    }
    value = static_cast<Enum>(number);
  }
  void Text(std::string& text);
  // Some of the machine's ranks, or none.
  void Ranks(RankSet& ranks);
  void Numbers(std::vector<uint32_t>& numbers);
  // Numbers of slots, or of ranks of the job.
  void JobNumbers(std::vector<uint32_t>& numbers);
  void How(Status& status);
  // A status that is not kOk.
  void Error(Status& status);
  // The rest of the bytes.
  void Message(wire::Message& message);
  template <typename Element, typename Function>
  void List(std::vector<Element>& list, size_t bytes_min, const Function& fields) {
    uint32_t count = 0;
    Number(count);
    if (count > rest_.size() / bytes_min) return Fail();
    list.resize(count);
    for (Element& element : list) fields(element);
  }
  // Refuses the word if `is_sane` returns false for these limits.
  template <typename Function>
  void Check(const Function& is_sane) {
    if (status_.ok() && !is_sane(limits_)) Fail();
  }
  void Fail();

  // kProtocol: the bytes are no word, or have facts that cannot be true.
  Status End() const;

 private:
  ConstByteSpan rest_;
  const WordLimits limits_;
  Status status_;
};

void Fields(auto& archive, WordOf<RoundKey> auto& key) {
  archive.Number(key.tensor);
  archive.Number(key.use);
  archive.Number(key.first_piece);
}
void Fields(auto& archive, WordOf<Abort> auto& word) {
  Fields(archive, word.key);
  archive.Error(word.why);
}
void Fields(auto&, WordOf<Leaves> auto&) {}
void Fields(auto&, WordOf<MayLeave> auto&) {}
void Fields(auto&, WordOf<CarrierLeaves> auto&) {}
void Fields(auto& archive, WordOf<JobOver> auto& word) { archive.Error(word.status); }
void Fields(auto& archive, WordOf<wire::Message> auto& message) { archive.Message(message); }

// Returns whether the runs of pieces of a round can be true: no run is empty, no piece is larger
// than a block, and there are no more pieces than numbers.
template <typename Facts>
bool AreRuns(const RoundKey& key, const Facts& facts, const WordLimits& limits) {
  // A block's use has two bits beside the number of a piece (member/block_transfers.h).
  constexpr uint64_t kPieceNumbersMax = uint64_t{1} << 30;
  const size_t element = MovesBytes(facts.how) ? 1 : SizeOf(facts.type);
  uint64_t end = key.first_piece;
  for (const auto& run : facts.pieces) {
    if (run.count == 0 || run.bytes > limits.piece_bytes_max) return false;
    if (run.bytes % element != 0) return false;
    end += run.count;
  }
  return end <= kPieceNumbersMax && facts.ranks != 0;
}

// `Words`: a variant, the words that go one way in one kind of job.
template <typename Words>
std::vector<std::byte> EncodeWord(const Words& word) {
  FieldWriter writer;
  writer.Number(static_cast<uint8_t>(word.index()));
  std::visit([&](const auto& one) { Fields(writer, one); }, word);
  return writer.Take();
}

template <typename Words, size_t... kKinds>
void ReadKind(size_t kind, FieldReader& reader, Words& word, std::index_sequence<kKinds...>) {
  auto read = [&]<size_t kKind>() { Fields(reader, word.template emplace<kKind>()); };
  (void)((kind == kKinds && (read.template operator()<kKinds>(), true)) || ...);
}

// kProtocol: the packet is no word of this kind, or has facts that cannot be true; nobody looks at
// them again.
template <typename Words>
Result<Words> DecodeWord(ConstByteSpan packet, const WordLimits& limits) {
  constexpr size_t kKinds = std::variant_size_v<Words>;
  FieldReader reader(packet, limits);
  uint8_t kind = 0;
  reader.Number(kind);
  if (kind >= kKinds) reader.Fail();
  Words word;
  ReadKind(kind, reader, word, std::make_index_sequence<kKinds>());
  if (Status status = reader.End(); !status.ok()) return status;
  return word;
}

}  // namespace byteps::machine
