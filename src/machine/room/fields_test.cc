#include "src/machine/room/fields.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "src/machine/member/member_words.h"
#include "src/machine/serverless/local_words.h"

namespace byteps::machine {
namespace {

LocalFacts Facts() {
  LocalFacts facts;
  facts.ranks = 0b1011;
  facts.how = Combine::kMax;
  facts.type = DataType::kBfloat16;
  facts.root = 3;
  facts.priority = -7;
  facts.order = 12;
  facts.pieces = {{3, 64}, {1, 18}};
  return facts;
}

MemberFacts FactsOfMember() {
  MemberFacts facts;
  facts.name = "w";
  facts.ranks = 0b101;
  facts.how = Combine::kOverlay;
  facts.type = DataType::kInt64;
  facts.codec = 2;
  facts.process_set = 9;
  facts.root = 4;
  facts.priority = -3;
  facts.order = 8;
  facts.atomic = true;
  facts.others_wait = true;
  facts.pieces = {{2, 64, 8, 16, 0, 64}, {1, 24, 0, 0, 8, 16}};
  facts.homes = {1, 0, 1};
  return facts;
}

constexpr WordLimits kLimitsOfWords = {.ranks = 4, .piece_bytes_max = 64};
constexpr RoundKey kRoundOfWords = {5, uint64_t{1} << 41, 1};
const Status kNoInput(StatusCode::kUnavailable, "rank 1 has no input");

template <typename Kind, typename Words>
struct IsIn;
template <typename Kind, typename... Kinds>
struct IsIn<Kind, std::variant<Kinds...>> : std::disjunction<std::is_same<Kind, Kinds>...> {};

// The words that go the same way in the same kind of job as a word of this kind.
template <typename Kind>
using WordsOf = std::conditional_t<
    IsIn<Kind, LocalWords::ToCarrier>::value, LocalWords::ToCarrier,
    std::conditional_t<IsIn<Kind, LocalWords::ToRank>::value, LocalWords::ToRank,
                       std::conditional_t<IsIn<Kind, MemberWords::ToCarrier>::value,
                                          MemberWords::ToCarrier, MemberWords::ToRank>>>;

template <typename Kind>
std::vector<std::byte> Encode(const Kind& word) {
  return EncodeWord(WordsOf<Kind>(word));
}
template <typename Kind>
Result<WordsOf<Kind>> Decode(ConstByteSpan packet) {
  return DecodeWord<WordsOf<Kind>>(packet, kLimitsOfWords);
}

template <typename Kind>
Kind Back(const Kind& word) {
  auto back = Decode<Kind>(Encode(word));
  EXPECT_TRUE(back.ok()) << back.status().ToString();
  return std::get<Kind>(back.value());
}

TEST(Words, ComeBackAsTheyWere) {
  Begun begun = Back(Begun{kRoundOfWords, Facts(), 5, {3, 8, 16}, kNoInput});
  EXPECT_EQ(begun.key, kRoundOfWords);
  EXPECT_EQ(begun.facts, Facts());
  EXPECT_EQ(begun.operations, 5u);
  EXPECT_EQ(begun.part, (SmallPart{3, 8, 16}));
  EXPECT_EQ(begun.no_input, kNoInput);
  Combined combined = Back(Combined{kRoundOfWords, 0b1001});
  EXPECT_EQ(combined.key, kRoundOfWords);
  EXPECT_EQ(combined.ranks, 0b1001u);
  Abort abort = Back(Abort{kRoundOfWords, Status(StatusCode::kDeadlineExceeded, "too late")});
  EXPECT_EQ(abort.key, kRoundOfWords);
  EXPECT_EQ(abort.why, Status(StatusCode::kDeadlineExceeded, "too late"));
  EXPECT_EQ(Back(GaveUp{"no memory"}).why, "no memory");
  Status error(StatusCode::kPeerLost, "worker 1");
  Failed failed = Back(Failed{kRoundOfWords, error});
  EXPECT_EQ(failed.key, kRoundOfWords);
  EXPECT_EQ(failed.status, error);
  EXPECT_EQ(Back(JobOver{error}).status, error);
  member::Begun of_member = Back(member::Begun{kRoundOfWords, FactsOfMember(), 8, 16, 7, kNoInput});
  EXPECT_EQ(of_member.key, kRoundOfWords);
  EXPECT_EQ(of_member.facts, FactsOfMember());
  EXPECT_EQ(of_member.push_offset, 8u);
  EXPECT_EQ(of_member.push_bytes, 16u);
  EXPECT_EQ(of_member.operations, 7u);
  EXPECT_EQ(of_member.no_input, kNoInput);
  EXPECT_EQ(Back(member::Joined{3}).number, 3u);
  member::SetAdded added = Back(member::SetAdded{4, {0, 2}, {1, 5}});
  EXPECT_EQ(added.number, 4u);
  EXPECT_EQ(added.slots, (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(added.ranks, (std::vector<uint32_t>{1, 5}));
  EXPECT_EQ(Back(member::SetRemoved{4}).number, 4u);
  EXPECT_EQ(Back(member::Retired{{7, 8}}).tensors, (std::vector<TensorId>{7, 8}));
  EXPECT_EQ(Back(member::Forgotten{{7, 8}}).tensors, (std::vector<TensorId>{7, 8}));
  EXPECT_EQ(Back(member::AsksSettled{11}).question, 11u);
  EXPECT_EQ(Back(member::IsSettled{11}).question, 11u);
  member::Ended ended = Back(member::Ended{kRoundOfWords, Status::Ok(), {0, 2}, true});
  EXPECT_TRUE(ended.status.ok());
  EXPECT_EQ(ended.receipt, (std::vector<uint32_t>{0, 2}));
  EXPECT_TRUE(ended.mixed);
  EXPECT_EQ(Back(member::Ended{kRoundOfWords, error, {}, false}).status, error);
  EXPECT_TRUE(Back(member::Begun{kRoundOfWords, FactsOfMember(), 8, 16, 7, {}, true}).on_device);
  Back(Joined());
  Back(Leaves());
  Back(MayLeave());
  Back(CarrierLeaves());
  wire::Message message = wire::Declare{"w", 1, wire::TensorSpec(), 4};
  EXPECT_EQ(Back(message), message);
}

UnitLaunch LaunchOfWords() {
  return {kRoundOfWords, device::Launch::Kind::kGather, 4, 2, DataType::kFloat16,
          Combine::kMax, {{1, 0, 64}, {3, 64, 32}}};
}

TEST(Words, OfGroupsComeBackAsTheyWere) {
  EXPECT_EQ(Back(HasDevice{"GPU-1"}).uuid, "GPU-1");
  EXPECT_EQ(Back(Met{kNoInput}).how, kNoInput);
  EXPECT_TRUE(Back(Met{}).how.ok());
  EXPECT_EQ(Back(Broken{kNoInput}).why, kNoInput);
  EXPECT_EQ(Back(GroupOver{kNoInput}).why, kNoInput);
  const std::string id(sizeof(device::GroupId), '\1');
  const SumsSo so = Back(SumsSo{"NCCL 2.28.3", id, 2, 0b1110});
  EXPECT_EQ(so.library, "NCCL 2.28.3");
  EXPECT_EQ(so.id, id);
  EXPECT_EQ(so.place, 2u);
  EXPECT_EQ(so.ranks, 0b1110u);
  const UnitLaunch launch = Back(LaunchOfWords());
  EXPECT_EQ(launch.key, kRoundOfWords);
  EXPECT_EQ(launch.kind, device::Launch::Kind::kGather);
  EXPECT_EQ(launch.first_piece, 4u);
  EXPECT_EQ(launch.pieces, 2u);
  EXPECT_EQ(launch.type, DataType::kFloat16);
  EXPECT_EQ(launch.how, Combine::kMax);
  EXPECT_EQ(launch.runs, LaunchOfWords().runs);
  EXPECT_EQ(launch.bytes(), 96u);
}

template <typename Kind>
void ExpectWhole(const Kind& word) {
  std::vector<std::byte> packet = Encode(word);
  for (size_t bytes = 0; bytes < packet.size(); ++bytes) {
    EXPECT_FALSE(Decode<Kind>(ConstByteSpan(packet).first(bytes)).ok()) << bytes;
  }
  packet.push_back(std::byte{0});
  EXPECT_FALSE(Decode<Kind>(packet).ok());
}

TEST(Words, WhatIsNoneIsRefused) {
  ExpectWhole(Begun{kRoundOfWords, Facts(), 0, {3, 8, 16}, {}});
  ExpectWhole(Combined{kRoundOfWords, 0b1001});
  ExpectWhole(Abort{kRoundOfWords, Status(StatusCode::kDeadlineExceeded, "why")});
  ExpectWhole(member::Begun{kRoundOfWords, FactsOfMember(), 8, 16, 0, {}});
  ExpectWhole(member::SetAdded{4, {0, 2}, {1, 5}});
  ExpectWhole(member::Ended{kRoundOfWords, Status::Ok(), {0, 2}, true});
  ExpectWhole(Failed{kRoundOfWords, Status(StatusCode::kPeerLost, "text")});
}

// Changes that make a right word wrong.
template <typename Kind>
using Changes = std::vector<std::pair<const char*, std::function<void(Kind&)>>>;

template <typename Kind>
void ExpectRefused(const Kind& word, const Changes<Kind>& changes) {
  EXPECT_TRUE(Decode<Kind>(Encode(word)).ok());
  for (const auto& [what, change] : changes) {
    Kind wrong = word;
    change(wrong);
    auto back = Decode<Kind>(Encode(wrong));
    EXPECT_FALSE(back.ok()) << what;
    if (!back.ok()) EXPECT_EQ(back.status().code(), StatusCode::kProtocol) << what;
  }
}

TEST(Words, AFactOfARoundThatCannotBeTrueIsRefused) {
  ExpectRefused<Begun>(
      {kRoundOfWords, Facts(), 5, {3, 8, 16}},
      {{"no ranks", [](Begun& word) { word.facts.ranks = 0; }},
       {"a rank that the machine does not have", [](Begun& word) { word.facts.ranks |= 1 << 4; }},
       {"the last rank that a set could name",
        [](Begun& word) { word.facts.ranks |= RankSet{1} << 63; }},
       {"a way of combining that is none",
        [](Begun& word) { word.facts.how = static_cast<Combine>(kCombineCount); }},
       {"a type that is none",
        [](Begun& word) { word.facts.type = static_cast<DataType>(kDataTypeCount); }},
       {"a root beyond every set", [](Begun& word) { word.facts.root = 64; }},
       {"a root that the machine does not have", [](Begun& word) { word.facts.root = 4; }},
       {"a root that takes no part", [](Begun& word) { word.facts.root = 2; }},
       {"a run without pieces", [](Begun& word) { word.facts.pieces[1].count = 0; }},
       {"a piece that is larger than a block",
        [](Begun& word) { word.facts.pieces[0].bytes = 66; }},
       {"half an element", [](Begun& word) { word.facts.pieces[1].bytes = 17; }},
       {"more pieces than there are numbers",
        [](Begun& word) { word.facts.pieces[0].count = UINT32_MAX; }},
       {"a number that is followed by none", [](Begun& word) { word.key.first_piece = INT32_MAX; }},
       {"a place that no rank has", [](Begun& word) { word.part.place = kSmallPlaces; }},
       {"a part behind its place", [](Begun& word) { word.part.offset = kSmallBytesMax; }},
       {"a part longer than its place", [](Begun& word) { word.part.bytes = UINT32_MAX; }}});
}

TEST(Words, AFactForTheServersThatCannotBeTrueIsRefused) {
  using Of = member::Begun;
  Of summed{kRoundOfWords, FactsOfMember(), 8, 16, 7};
  summed.facts.how = Combine::kSum;
  ExpectRefused<Of>(summed,
                    {{"half an element", [](Of& word) { word.facts.pieces[1].bytes = 28; }}});
  ExpectRefused<Of>(
      {kRoundOfWords, FactsOfMember(), 8, 16, 7},
      {{"no ranks", [](Of& word) { word.facts.ranks = 0; }},
       {"a rank that the machine does not have", [](Of& word) { word.facts.ranks |= 1 << 4; }},
       {"a way of combining that is none",
        [](Of& word) { word.facts.how = static_cast<Combine>(kCombineCount); }},
       {"a type that is none",
        [](Of& word) { word.facts.type = static_cast<DataType>(kDataTypeCount); }},
       {"a run without pieces", [](Of& word) { word.facts.pieces[0].count = 0; }},
       {"a piece that is larger than a block", [](Of& word) { word.facts.pieces[0].bytes = 65; }},
       {"what is pushed begins behind the piece",
        [](Of& word) { word.facts.pieces[0].push_offset = 65; }},
       {"what is pushed ends behind the piece",
        [](Of& word) { word.facts.pieces[0].push_bytes = 57; }},
       {"what is pushed is as long as a number can be",
        [](Of& word) { word.facts.pieces[0].push_bytes = UINT32_MAX; }},
       {"what is wanted begins behind the piece",
        [](Of& word) { word.facts.pieces[1].want_offset = 9; }},
       {"what is wanted ends behind the piece",
        [](Of& word) { word.facts.pieces[1].want_bytes = 17; }},
       {"more pieces than there are numbers",
        [](Of& word) { word.facts.pieces[1].count = UINT32_MAX; }},
       {"a number that is followed by none", [](Of& word) { word.key.first_piece = INT32_MAX; }},
       {"a part behind the first piece", [](Of& word) { word.push_offset = 49; }},
       {"a part of a round without pieces", [](Of& word) { word.facts.pieces.clear(); }},
       {"a part longer than the first piece", [](Of& word) { word.push_bytes = UINT32_MAX; }}});
}

TEST(Words, AFactOfAGroupThatCannotBeTrueIsRefused) {
  ExpectRefused<SumsSo>(
      {"NCCL 2.28.3", std::string(sizeof(device::GroupId), 'x'), 2, 0b1110},
      {{"an id that is none", [](SumsSo& word) { word.id.pop_back(); }},
       {"a place that the group does not have", [](SumsSo& word) { word.place = 3; }},
       {"more ranks than the machine has", [](SumsSo& word) { word.ranks = 0b11110; }}});
  using Of = UnitLaunch;
  ExpectRefused<Of>(
      LaunchOfWords(),
      {{"a gap between runs", [](Of& word) { word.runs[1].first = 65; }},
       {"a home that the machine does not have", [](Of& word) { word.runs[0].home = 4; }},
       {"more bytes than the pieces can have", [](Of& word) { word.runs[1].bytes = 65; }},
       {"no pieces", [](Of& word) { word.pieces = 0; }},
       {"no bytes", [](Of& word) { word.runs.clear(); }},
       {"a type that groups do not have", [](Of& word) { word.type = DataType::kBool; }},
       {"no reduction", [](Of& word) { word.how = Combine::kOverlay; }}});
}

TEST(Words, NumbersThatNoJobHasAreRefused) {
  ExpectRefused<member::SetAdded>(
      {4, {0, 2}, {1, 5}},
      {{"slot", [](member::SetAdded& word) { word.slots[1] = kJobNumbersMax; }},
       {"rank", [](member::SetAdded& word) { word.ranks[1] = UINT32_MAX; }}});
  ExpectRefused<member::Ended>(
      {kRoundOfWords, Status::Ok(), {0, 2}, true},
      {{"slot", [](member::Ended& word) { word.receipt[0] = kJobNumbersMax; }}});
  ExpectRefused<Combined>({kRoundOfWords, 0b1001},
                          {{"rank", [](Combined& word) { word.ranks |= 1 << 4; }}});
}

// Gives every byte of a word each of its values, one at a time. Each word that is let in must be
// possible.
TEST(Words, WhateverOneByteBecomesWhatIsLetInLiesInsideThePiece) {
  const std::vector<std::byte> packet =
      Encode(member::Begun{kRoundOfWords, FactsOfMember(), 8, 16, 7});
  size_t let_in = 0;
  for (size_t at = 1; at < packet.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::vector<std::byte> changed = packet;
      changed[at] = static_cast<std::byte>(value);
      auto word = Decode<member::Begun>(changed);
      if (!word.ok()) continue;
      ++let_in;
      const auto& begun = std::get<member::Begun>(word.value());
      EXPECT_EQ(begun.facts.ranks & ~RankSet{0b1111}, 0u);
      for (const MemberFacts::Run& run : begun.facts.pieces) {
        EXPECT_GT(run.count, 0u);
        EXPECT_LE(run.bytes, kLimitsOfWords.piece_bytes_max);
        EXPECT_LE(uint64_t{run.push_offset} + run.push_bytes, run.bytes);
        EXPECT_LE(uint64_t{run.want_offset} + run.want_bytes, run.bytes);
      }
      EXPECT_LE(uint64_t{begun.push_offset} + begun.push_bytes, begun.facts.pieces[0].bytes);
    }
  }
  EXPECT_GT(let_in, 256u) << "names, priorities and homes may be any";
}

template <typename Words>
void ReadRandomBytes() {
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> packet(random() % 80);
    for (std::byte& one : packet) one = static_cast<std::byte>(random());
    if (!packet.empty()) {
      packet[0] = static_cast<std::byte>(random() % (std::variant_size_v<Words> + 1));
    }
    (void)DecodeWord<Words>(packet, kLimitsOfWords);
  }
}

TEST(Words, RandomBytesHarmNothing) {
  ReadRandomBytes<LocalWords::ToCarrier>();
  ReadRandomBytes<LocalWords::ToRank>();
  ReadRandomBytes<MemberWords::ToCarrier>();
  ReadRandomBytes<MemberWords::ToRank>();
}

}  // namespace
}  // namespace byteps::machine
