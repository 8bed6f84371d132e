#include "src/machine/room/words.h"

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstring>
#include <utility>

#include "src/wire/bytes.h"

namespace byteps::machine {
namespace {

// The number of a block's use has one more bit beside the number of a piece (ferry.h).
constexpr uint64_t kPieceNumbersMax = uint64_t{1} << 31;

// Writes values one after the other. If one does not fit, the error shows once, at the end.
class Writer {
 public:
  template <std::unsigned_integral Number>
  void Put(Number number) {
    size_t at = bytes_.size();
    bytes_.resize(at + sizeof(Number));
    wire::PutLittle(bytes_.data() + at, number);
  }
  void Put(const RoundKey& key) {
    Put(key.tensor);
    Put(key.use);
    Put(key.first_piece);
  }
  void Put(const std::string& text) {
    Put(static_cast<uint32_t>(text.size()));
    ConstByteSpan bytes = std::as_bytes(std::span(text));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void Put(const Status& status) {
    Put(static_cast<uint8_t>(status.code()));
    Put(status.message());
  }
  void Put(const RoundFacts& facts) {
    Put(facts.ranks);
    Put(static_cast<uint8_t>(facts.how));
    Put(static_cast<uint8_t>(facts.type));
    Put(facts.root);
    Put(static_cast<uint32_t>(facts.priority));
    Put(facts.order);
    Put(static_cast<uint32_t>(facts.pieces.size()));
    for (const RoundFacts::Run& run : facts.pieces) {
      Put(run.count);
      Put(run.bytes);
    }
  }
  void Put(const wire::Message& message) {
    std::vector<std::byte> bytes = wire::EncodeControl(message);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }

  void Put(const Begun& word) {
    Put(word.key);
    Put(word.facts);
    Put(word.operations);
    Put(word.part.place);
    Put(word.part.offset);
    Put(word.part.bytes);
  }
  void Put(const Joined&) {}
  void Put(const Abort& word) {
    Put(word.key);
    Put(word.why);
  }
  void Put(const Leaves&) {}
  void Put(const GaveUp& word) { Put(word.why); }
  void Put(const Failed& word) {
    Put(word.key);
    Put(word.status);
  }
  void Put(const std::vector<uint32_t>& numbers) {
    Put(static_cast<uint32_t>(numbers.size()));
    for (uint32_t number : numbers) Put(number);
  }
  void Put(const UpwardFacts& facts) {
    Put(facts.name);
    Put(facts.ranks);
    Put(static_cast<uint8_t>(facts.how));
    Put(static_cast<uint8_t>(facts.type));
    Put(facts.codec);
    Put(facts.process_set);
    Put(facts.root);
    Put(static_cast<uint32_t>(facts.priority));
    Put(facts.order);
    Put(static_cast<uint8_t>(facts.atomic ? 1 : 0));
    Put(static_cast<uint8_t>(facts.others_wait ? 1 : 0));
    Put(static_cast<uint32_t>(facts.pieces.size()));
    for (const UpwardFacts::Run& run : facts.pieces) {
      for (uint32_t number : {run.count, run.bytes, run.push_offset, run.push_bytes,
                              run.want_offset, run.want_bytes}) {
        Put(number);
      }
    }
    Put(facts.homes);
  }
  void Put(const BegunUpward& word) {
    Put(word.key);
    Put(word.facts);
    Put(word.push_offset);
    Put(word.push_bytes);
    Put(word.operations);
  }
  void Put(const JoinedUpward& word) { Put(word.number); }
  void Put(const SetAdded& word) {
    Put(word.number);
    Put(word.slots);
    Put(word.ranks);
  }
  void Put(const SetRemoved& word) { Put(word.number); }
  void Put(const Retired& word) { Put(word.tensors); }
  void Put(const Forgotten& word) { Put(word.tensors); }
  void Put(const AsksSettled& word) { Put(word.question); }
  void Put(const Ended& word) {
    Put(word.key);
    Put(word.status);
    Put(word.receipt);
    Put(static_cast<uint8_t>(word.mixed ? 1 : 0));
  }
  void Put(const IsSettled& word) { Put(word.question); }
  void Put(const Combined& word) {
    Put(word.key);
    Put(word.ranks);
  }
  void Put(const MayLeave&) {}
  void Put(const CarrierLeaves&) {}
  void Put(const JobOver& word) { Put(word.status); }

  std::vector<std::byte> Take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  Reader(ConstByteSpan bytes, const WordLimits& limits) : rest_(bytes), limits_(limits) {}

  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }
  ConstByteSpan rest() const { return rest_; }

  template <std::unsigned_integral Number>
  Number Get() {
    if (rest_.size() < sizeof(Number)) return Fail<Number>();
    Number number = wire::GetLittle<Number>(rest_.data());
    rest_ = rest_.subspan(sizeof(Number));
    return number;
  }
  std::string Text() {
    auto bytes = Get<uint32_t>();
    if (bytes > rest_.size()) return Fail<std::string>();
    std::string text(reinterpret_cast<const char*>(rest_.data()), bytes);
    rest_ = rest_.subspan(bytes);
    return text;
  }
  // Reads a number of an enum that has `count` values.
  template <typename Enum>
  Enum Choice(int count) {
    auto number = Get<uint8_t>();
    return number < count ? static_cast<Enum>(number) : Fail<Enum>();
  }
  RoundKey Key() {
    RoundKey key;
    key.tensor = Get<TensorId>();
    key.use = Get<uint64_t>();
    key.first_piece = Get<uint32_t>();
    return key;
  }
  Status Error() {
    Status status = How();
    return status.ok() ? Fail<Status>() : status;
  }
  Status How() {
    auto code = Choice<StatusCode>(static_cast<int>(kLastStatusCode) + 1);
    std::string text = Text();
    return code == StatusCode::kOk ? Status::Ok() : Status(code, std::move(text));
  }
  bool Flag() { return Get<uint8_t>() != 0; }
  // Reads a set of some of the machine's ranks, or of none.
  RankSet Ranks() {
    auto ranks = Get<RankSet>();
    return (ranks & ~FirstRanks(limits_.ranks)) == 0 ? ranks : Fail<RankSet>();
  }
  // Reads numbers of slots, or of ranks of the job.
  std::vector<uint32_t> JobNumbers() {
    std::vector<uint32_t> numbers = Numbers();
    const bool sane =
        std::ranges::all_of(numbers, [](uint32_t number) { return number < kJobNumbersMax; });
    return sane ? numbers : Fail<std::vector<uint32_t>>();
  }
  std::vector<uint32_t> Numbers() {
    auto count = Get<uint32_t>();
    if (count > rest_.size() / sizeof(uint32_t)) return Fail<std::vector<uint32_t>>();
    std::vector<uint32_t> numbers(count);
    for (uint32_t& number : numbers) number = Get<uint32_t>();
    return numbers;
  }
  UpwardFacts Upward() {
    UpwardFacts facts;
    facts.name = Text();
    facts.ranks = Ranks();
    facts.how = Choice<Combine>(kCombineCount);
    facts.type = Choice<DataType>(kDataTypeCount);
    facts.codec = Get<uint8_t>();
    facts.process_set = Get<uint32_t>();
    facts.root = Get<uint32_t>();
    facts.priority = static_cast<int32_t>(Get<uint32_t>());
    facts.order = Get<uint32_t>();
    facts.atomic = Flag();
    facts.others_wait = Flag();
    auto runs = Get<uint32_t>();
    if (runs > rest_.size() / (6 * sizeof(uint32_t))) return Fail<UpwardFacts>();
    facts.pieces.resize(runs);
    for (UpwardFacts::Run& run : facts.pieces) {
      for (uint32_t* number : {&run.count, &run.bytes, &run.push_offset, &run.push_bytes,
                               &run.want_offset, &run.want_bytes}) {
        *number = Get<uint32_t>();
      }
    }
    facts.homes = Numbers();
    return facts;
  }
  BegunUpward ReadUpward() {
    BegunUpward begun;
    begun.key = Key();
    begun.facts = Upward();
    begun.push_offset = Get<uint32_t>();
    begun.push_bytes = Get<uint32_t>();
    begun.operations = Get<uint32_t>();
    const UpwardFacts& facts = begun.facts;
    bool sane = AreRuns(begun.key, facts);
    for (const UpwardFacts::Run& run : facts.pieces) {
      sane = sane && uint64_t{run.push_offset} + run.push_bytes <= run.bytes &&
             uint64_t{run.want_offset} + run.want_bytes <= run.bytes;
    }
    const uint32_t first_bytes = facts.pieces.empty() ? 0 : facts.pieces[0].bytes;
    sane = sane && uint64_t{begun.push_offset} + begun.push_bytes <= first_bytes;
    return sane ? begun : Fail<BegunUpward>();
  }
  Begun ReadBegun() {
    Begun begun;
    begun.key = Key();
    begun.facts = Facts();
    begun.operations = Get<uint32_t>();
    for (uint32_t* number : {&begun.part.place, &begun.part.offset, &begun.part.bytes}) {
      *number = Get<uint32_t>();
    }
    const RoundFacts& facts = begun.facts;
    const SmallPart& part = begun.part;
    const bool has_root =
        facts.root == kNoRank || (facts.root < limits_.ranks && Has(facts.ranks, facts.root));
    const bool has_place =
        part.place == kNoPlace ||
        (part.place < kSmallPlaces && uint64_t{part.offset} + part.bytes <= kSmallBytesMax);
    return AreRuns(begun.key, facts) && has_root && has_place ? begun : Fail<Begun>();
  }
  RoundFacts Facts() {
    RoundFacts facts;
    facts.ranks = Ranks();
    facts.how = Choice<Combine>(kCombineCount);
    facts.type = Choice<DataType>(kDataTypeCount);
    facts.root = Get<uint32_t>();
    facts.priority = static_cast<int32_t>(Get<uint32_t>());
    facts.order = Get<uint32_t>();
    auto runs = Get<uint32_t>();
    if (runs > rest_.size() / (2 * sizeof(uint32_t))) return Fail<RoundFacts>();
    facts.pieces.reserve(runs);
    for (uint32_t i = 0; i < runs; ++i) {
      auto count = Get<uint32_t>();
      facts.pieces.push_back({count, Get<uint32_t>()});
    }
    return facts;
  }

 private:
  template <typename Value>
  Value Fail() {
    ok_ = false;
    rest_ = {};
    return Value();
  }

  // Checks the runs of either kind of facts.
  template <typename FactsOfRound>
  bool AreRuns(const RoundKey& key, const FactsOfRound& facts) const {
    const size_t element = MovesBytes(facts.how) ? 1 : SizeOf(facts.type);
    uint64_t end = key.first_piece;
    for (const auto& run : facts.pieces) {
      if (run.count == 0 || run.bytes > limits_.piece_bytes_max) return false;
      if (run.bytes % element != 0) return false;
      end += run.count;
    }
    return end <= kPieceNumbersMax && facts.ranks != 0;
  }

  ConstByteSpan rest_;
  const WordLimits limits_;
  bool ok_ = true;
};

Word ReadWord(size_t kind, Reader& reader) {
  switch (kind) {
    case 0: return reader.ReadBegun();
    case 1: return Joined();
    case 2: {
      RoundKey key = reader.Key();
      return Abort{key, reader.Error()};
    }
    case 3: return Leaves();
    case 4: return GaveUp{reader.Text()};
    case 5: {
      RoundKey key = reader.Key();
      return Failed{key, reader.Error()};
    }
    case 6: return MayLeave();
    case 7: return CarrierLeaves();
    case 8: return JobOver{reader.Error()};
    case 9: return reader.ReadUpward();
    case 10: return JoinedUpward{reader.Get<uint64_t>()};
    case 11: {
      SetAdded added;
      added.number = reader.Get<uint32_t>();
      added.slots = reader.JobNumbers();
      added.ranks = reader.JobNumbers();
      return added;
    }
    case 12: return SetRemoved{reader.Get<uint32_t>()};
    case 13: return Retired{reader.Numbers()};
    case 14: return AsksSettled{reader.Get<uint64_t>()};
    case 15: {
      Ended ended;
      ended.key = reader.Key();
      ended.status = reader.How();
      ended.receipt = reader.JobNumbers();
      ended.mixed = reader.Flag();
      return ended;
    }
    case 16: return IsSettled{reader.Get<uint64_t>()};
    case 17: {
      RoundKey key = reader.Key();
      return Combined{key, reader.Ranks()};
    }
    default: return Forgotten{reader.Numbers()};
  }
}

constexpr size_t kKinds = std::variant_size_v<Word>;

Status Nonsense() {
  return {StatusCode::kProtocol,
          "a process of this machine said what no process of this version says: restart the job, "
          "with one version of BytePS for all its processes"};
}

}  // namespace

std::string RanksText(RankSet ranks) {
  std::string text;
  for (; ranks != 0; ranks &= ranks - 1) {
    text += (text.empty() ? "" : ", ") + std::to_string(std::countr_zero(ranks));
  }
  return text;
}

std::vector<std::byte> EncodeWord(const Word& word) {
  Writer writer;
  writer.Put(static_cast<uint8_t>(word.index()));
  std::visit([&](const auto& one) { writer.Put(one); }, word);
  return writer.Take();
}

Result<Word> DecodeWord(ConstByteSpan packet, const WordLimits& limits) {
  Reader reader(packet, limits);
  auto kind = reader.Get<uint8_t>();
  if (!reader.ok() || kind >= kKinds) return Nonsense();
  if (kind == kKinds - 1) {
    Result<wire::Message> message = wire::DecodeControl(reader.rest());
    if (!message.ok()) return message.status();
    return Word(std::move(message).value());
  }
  Word word = ReadWord(kind, reader);
  if (!reader.ok() || !reader.at_end()) return Nonsense();
  return word;
}

}  // namespace byteps::machine
