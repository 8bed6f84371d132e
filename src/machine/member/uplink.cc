#include "src/machine/member/uplink.h"

#include <algorithm>
#include <bit>
#include <variant>

#include "src/protocol/never_complete.h"
#include "src/protocol/worker/exchange/front_rules.h"

namespace byteps::machine {
namespace {

using protocol::ErrorOfJoinedRoot;
using protocol::ErrorOfLeftRank;

ShardId ShardsEnd(const wire::View& view) {
  size_t end = 0;
  for (const wire::ServerInfo& server : view.servers) {
    end = std::max(end, server.first_shard + server.shard_weights.size());
  }
  return static_cast<ShardId>(end);
}

}  // namespace

class Uplink::RunSpans final : public protocol::SpanSource {
 public:
  RunSpans(const MemberFacts& facts, uint32_t first_piece, ByteSpan memory)
      : facts_(facts), memory_(memory) {
    for (const MemberFacts::Run& run : facts.pieces) {
      begins_.push_back(first_piece);
      first_piece += run.count;
    }
    end_ = first_piece;
  }
  uint32_t end() const { return end_; }

  protocol::Spans SpansOf(uint32_t number) const override {
    auto next = std::ranges::upper_bound(begins_, number);
    const auto& run = facts_.pieces[static_cast<size_t>(next - begins_.begin()) - 1];
    protocol::Spans spans;
    spans.piece_bytes = run.bytes;
    spans.push_offset = run.push_offset;
    spans.push = memory_.first(run.push_bytes);
    spans.want_offset = run.want_offset;
    spans.want = memory_.first(run.want_bytes);
    return spans;
  }

 private:
  const MemberFacts& facts_;
  const ByteSpan memory_;
  std::vector<uint32_t> begins_;
  uint32_t end_ = 0;
};

Uplink::Uplink(uint32_t ranks, uint32_t lanes, size_t piece_bytes_max, Ferry& ferry, Events events)
    : ranks_(ranks),
      lane_count_(lanes),
      ferry_(ferry),
      events_(std::move(events)),
      memory_(piece_bytes_max),
      lanes_(lanes, [this](uint32_t lane,
                           protocol::LaneMail mail) { events_.to_lane(lane, std::move(mail)); }),
      exchanges_(lanes_, protocol::kFrontRules) {}

Uplink::~Uplink() = default;

void Uplink::OnView(const protocol::to_lane::View& mail) {
  bool begins = slot_ == kNoSlot || mail.view->generation != generation_;
  slot_ = mail.slot;
  generation_ = mail.view->generation;
  shards_end_ = ShardsEnd(*mail.view);
  machine_ranks_.Take(mail.view->workers, slot_);
  gone_.clear();
  for (const wire::WorkerInfo& worker : mail.view->workers) {
    if (worker.left) gone_.push_back(worker.rank);
  }
  if (!begins) {
    lanes_.ChangeView(mail);
    if (settling_.asks()) Settle();
    return LookAtAll();
  }
  for (auto& [key, round] : rounds_) ferry_.Close(key);
  rounds_.clear();
  keys_.clear();
  homes_.clear();
  retired_.clear();
  sets_.clear();
  joined_ = 0;
  exchanges_.Clear();
  lanes_.BeginGeneration(mail);
  for (auto early = std::exchange(early_, {}); auto& [rank, word] : early) Hear(rank, word);
}

void Uplink::OnWord(uint32_t rank, const MemberWords::ToCarrier& word) {
  if (closed_) return;
  if (slot_ == kNoSlot) {
    early_.emplace_back(rank, word);
  } else {
    Hear(rank, word);
  }
}

void Uplink::Hear(uint32_t rank, const MemberWords::ToCarrier& word) {
  std::visit([&](const auto& one) { On(rank, one); }, word);
}

void Uplink::On(uint32_t rank, const member::Begun& word) {
  if (retired_.contains(word.key.tensor)) return;  // each rank withdraws its own
  auto [place, is_new] = rounds_.try_emplace(word.key);
  Round& round = place->second;
  auto& homes = homes_[word.key.tensor];
  if (homes == nullptr || homes->size() < word.facts.homes.size()) {
    homes = std::make_shared<const std::vector<ShardId>>(word.facts.homes);
  }
  if (is_new) {
    round.facts = word.facts;
    round.facts.homes.clear();
    round.homes = homes;
    round.spans = std::make_unique<RunSpans>(round.facts, word.key.first_piece, memory_);
  }
  if (Status sound = Check(word, round); !sound.ok()) return events_.fail(sound);
  round.begun |= Bit(rank);
  round.brings[rank] = {word.push_offset, word.push_bytes};
  round.last.Take(rank, word.operations);
  if (round.end.has_value()) {
    events_.say(rank, *round.end);
    return EraseIfOver(word.key);
  }
  Look(word.key);
}

// Checks what a word alone does not show (words.h has the rest): that a rank brings its part of the
// bytes that all ranks of the machine bring, and that each piece has a home among the shards.
Status Uplink::Check(const member::Begun& word, const Round& round) const {
  bool is_inside = word.push_bytes == 0;
  if (!round.facts.pieces.empty()) {
    const MemberFacts::Run& first = round.facts.pieces[0];
    is_inside = is_inside || (word.push_offset >= first.push_offset &&
                              uint64_t{word.push_offset} + word.push_bytes <=
                                  uint64_t{first.push_offset} + first.push_bytes);
  }
  const bool have_homes = round.homes->size() >= round.spans->end();
  const bool are_shards =
      std::ranges::all_of(word.facts.homes, [&](ShardId home) { return home < shards_end_; });
  if (is_inside && have_homes && are_shards) return Status::Ok();
  return {StatusCode::kProtocol,
          "a process of this machine said of '" + word.facts.name +
              "' what cannot be true in this job: restart the job, with one version of BytePS for "
              "all its processes"};
}

void Uplink::On(uint32_t rank, const member::Joined& word) {
  joined_ |= Bit(rank);
  join_number_ = word.number;
  LookAtAll();
  // The machine takes no part when none of its ranks takes part; in a process set, when none of its
  // ranks in the set does.
  protocol::to_lane::Joined mail{join_number_, {}};
  if ((FirstRanks(ranks_) & ~left_ & ~joined_) != 0) {
    for (RankSet left = joined_; left != 0; left &= left - 1) {
      mail.ranks.Insert(machine_ranks_.RankOf(static_cast<uint32_t>(std::countr_zero(left))));
    }
  }
  lanes_.Tell(mail);
}

void Uplink::On(uint32_t rank, const Abort& word) {
  auto found = rounds_.find(word.key);
  if (found == rounds_.end() || (found->second.begun & Bit(rank)) == 0) return;
  Round& round = found->second;
  RankSet missing = round.is_open ? 0 : Missing(round);
  const std::string whom = missing == 0
                               ? ""
                               : "; the machine of rank " +
                                     std::to_string(machine_ranks_.RankOf(rank)) + LackOf(missing);
  AskForError(word.key, round, {word.why.code(), word.why.message() + whom});
}

// Breaks off the rounds of a rank that leaves, because its bytes are there for a moment only.
void Uplink::On(uint32_t rank, const Leaves&) {
  left_ |= Bit(rank);
  asks_.erase(rank);
  for (auto& [key, round] : rounds_) {
    if (!round.is_open) {
      // The rank never brings its part, so the round must not open with it.
      round.begun &= ~Bit(rank);
      round.brings.erase(rank);
      continue;
    }
    if (round.end.has_value() || (round.begun & Bit(rank)) == 0) continue;
    round.broken = ErrorOfLeftRank(machine_ranks_.RankOf(rank));
    ferry_.Close(key);
    AskForError(key, round, round.broken);
  }
  events_.say(rank, MayLeave());
  LookAtAll();
}

void Uplink::On(uint32_t rank, const member::SetAdded& word) {
  Set& set = sets_[word.number];
  const bool is_new = set.added == 0;
  set.added |= Bit(rank);
  if (!is_new) return;
  set.ranks = word.ranks;
  protocol::to_lane::AddProcessSet mail{word.number, {}, {}};
  for (uint32_t slot : word.slots) mail.slots.Insert(slot);
  for (uint32_t one : word.ranks) mail.ranks.Insert(one);
  lanes_.Tell(mail);
}

void Uplink::On(uint32_t rank, const member::SetRemoved& word) {
  auto found = sets_.find(word.number);
  if (found == sets_.end()) return;
  found->second.added &= ~Bit(rank);
  if (found->second.added != 0) return;
  sets_.erase(found);
  lanes_.Tell(protocol::to_lane::RemoveProcessSet{word.number});
}

// Drops the rounds. The names tell each rank that they are retired, and the rank withdraws.
void Uplink::On(uint32_t, const member::Retired& word) {
  std::vector<TensorId> fresh;
  for (TensorId tensor : word.tensors) {
    if (!retired_.insert(tensor).second) continue;
    fresh.push_back(tensor);
    homes_.erase(tensor);
    for (auto place = rounds_.lower_bound({tensor, 0, 0});
         place != rounds_.end() && place->first.tensor == tensor;) {
      auto one = place++;
      Round& round = one->second;
      ferry_.Close(one->first);
      round.begun = 0;
      round.facts.ranks = 0;  // nobody is told of its end
      if (round.serial == 0 || round.end.has_value()) {
        rounds_.erase(one);
      } else {
        OnEnd(exchanges_.Withdraw(round.serial));
      }
    }
  }
  lanes_.Retire(fresh);
}

// Forgets the tensors. Each rank says the word. A slow rank has said before that they are retired.
void Uplink::On(uint32_t, const member::Forgotten& word) {
  for (TensorId tensor : word.tensors) {
    auto round = rounds_.lower_bound({tensor, 0, 0});
    const bool goes_on = round != rounds_.end() && round->first.tensor == tensor &&
                         round->second.serial != 0 && !round->second.end.has_value();
    if (goes_on) {
      return events_.fail({StatusCode::kProtocol, "a process of this machine has forgotten '" +
                                                      round->second.facts.name +
                                                      "', which others exchange; restart the job"});
    }
    retired_.erase(tensor);
    homes_.erase(tensor);
  }
  lanes_.Forget(word.tensors);
}

void Uplink::On(uint32_t rank, const member::AsksSettled& word) {
  asks_[rank] = word.question;
  Settle();
}

void Uplink::Settle() { lanes_.Tell(settling_.Ask(lane_count_)); }

// Returns the ranks that the round waits for. A join waits for every rank.
RankSet Uplink::Missing(const Round& round) const {
  RankSet exempt = round.facts.how == Combine::kLast ? 0 : joined_;
  return round.facts.ranks & ~round.begun & ~exempt;
}

void Uplink::LookAtAll() {
  std::vector<RoundKey> keys;
  for (const auto& [key, round] : rounds_) keys.push_back(key);
  for (const RoundKey& key : keys) Look(key);
}

void Uplink::Look(const RoundKey& key) {
  auto found = rounds_.find(key);
  if (found == rounds_.end()) return;
  Round& round = found->second;
  if (round.end.has_value()) return EraseIfOver(key);
  if (round.is_open) return;
  if (round.serial != 0) return;
  const RankSet missing = Missing(round);
  if (missing != 0) {
    // Asks for the error here, because nobody else might ever ask for it.
    std::optional<uint32_t> gone = GoneOf(round.facts.process_set);
    RankSet here = missing & left_;
    if (!gone.has_value() && here != 0) {
      gone = machine_ranks_.RankOf(static_cast<uint32_t>(std::countr_zero(here)));
    }
    if (gone.has_value()) AskForError(key, round, ErrorOfLeftRank(*gone));
    return;
  }
  const bool from_here = round.facts.root == slot_ && round.facts.how == Combine::kOverlay;
  const bool brings =
      std::ranges::any_of(round.brings, [](const auto& one) { return one.second.second != 0; });
  const bool has_bytes = !round.facts.pieces.empty() && round.facts.pieces[0].bytes != 0;
  if (from_here && !brings && has_bytes)
    return AskForError(key, round,
                       ErrorOfJoinedRoot(machine_ranks_.NamesOf(joined_ & round.facts.ranks)));
  OpenFerry(key, round);
  Begin(key, round);
}

std::optional<uint32_t> Uplink::GoneOf(uint32_t process_set) const {
  if (gone_.empty()) return std::nullopt;
  if (process_set == 0) return gone_.front();
  auto set = sets_.find(process_set);
  if (set == sets_.end()) return std::nullopt;
  for (uint32_t rank : gone_) {
    if (std::ranges::find(set->second.ranks, rank) != set->second.ranks.end()) return rank;
  }
  return std::nullopt;
}

void Uplink::OpenFerry(const RoundKey& key, Round& round) {
  round.is_open = true;
  FerryRound open;
  open.ranks = round.facts.ranks & round.begun;
  open.bring = round.facts.how == Combine::kLast ? Bit(round.last.who()) : open.ranks;
  open.how = round.facts.how;
  open.type = round.facts.type;
  const bool has_gaps = open.ranks != round.facts.ranks && round.facts.how == Combine::kOverlay;
  const bool one_piece = round.spans->end() == key.first_piece + 1;
  for (const auto& [rank, part] : round.brings) {
    if (has_gaps && one_piece) open.parts.push_back(part);
  }
  ferry_.Open(key, std::move(open));
}

void Uplink::Begin(const RoundKey& key, Round& round) {
  protocol::Exchange exchange;
  const MemberFacts& facts = round.facts;
  exchange.name = facts.name;
  exchange.tensor = {key.tensor, facts.how, facts.type, facts.codec, facts.process_set};
  exchange.use = key.use;
  exchange.order = facts.order;
  exchange.priority = facts.priority;
  exchange.first_piece = key.first_piece;
  exchange.count = round.spans->end() - key.first_piece;
  exchange.homes = round.homes.get();
  exchange.spans = round.spans.get();
  if (facts.root != kNoRank) exchange.root = facts.root;
  exchange.atomic = facts.atomic;
  exchange.others_wait = facts.others_wait;
  keys_[++last_number_] = key;
  round.serial = exchanges_.Begin(last_number_, exchange);
}

// Asks the owners for an error; they decide. Some ranks may not have begun the round, because only
// the request is pushed.
void Uplink::AskForError(const RoundKey& key, Round& round, const Status& why) {
  if (round.end.has_value()) return;
  if (round.serial == 0) Begin(key, round);
  exchanges_.Abort(round.serial, why);
}

void Uplink::OnMail(protocol::FrontMail mail) {
  if (auto* part = std::get_if<protocol::to_front::PartDone>(&mail)) {
    OnEnd(exchanges_.OnPartDone(*part));
  } else if (auto* released = std::get_if<protocol::to_front::Released>(&mail)) {
    OnEnd(exchanges_.OnReleased(*released));
  } else if (auto* moved = std::get_if<protocol::to_front::HandOver>(&mail)) {
    if (!lanes_.OnHandOver(std::move(*moved))) return;
    lanes_.FinishMove();
    if (settling_.asks()) Settle();
  } else if (auto* settled = std::get_if<protocol::to_front::Settled>(&mail)) {
    if (!settling_.OnAnswer(*settled)) return;
    for (auto [rank, question] : std::exchange(asks_, {}))
      events_.say(rank, member::IsSettled{question});
  } else {
    events_.to_front(std::move(mail));
  }
}

void Uplink::OnEnd(const std::optional<protocol::Exchanges::End>& end) {
  if (!end.has_value()) return;
  auto number = keys_.find(end->operation);
  if (number == keys_.end()) return;
  const RoundKey key = number->second;
  keys_.erase(number);
  auto found = rounds_.find(key);
  if (found == rounds_.end()) return;
  Round& round = found->second;
  ferry_.Close(key);
  member::Ended ended{key, end->status, {}, end->mixed};
  if (end->status.ok() && !round.broken.ok()) ended.status = round.broken;
  if (end->status.ok() && !end->withdrawn && !round.is_open && round.broken.ok()) {
    ended.status = {StatusCode::kInternal, "'" + round.facts.name +
                                               "' ended without the ranks of this machine; this "
                                               "is a fault of the program"};
  }
  if (ended.status.ok() && end->receipt != nullptr) ended.receipt = end->receipt->List();
  // Another machine has asked for the error, and no shard knows which rank of this machine has not
  // come.
  const RankSet missing = round.is_open ? 0 : Missing(round) & ~left_;
  if (ended.status.code() == StatusCode::kDeadlineExceeded && missing != 0) {
    const std::string text = ended.status.message();
    const bool says_it = text.find(LackOf(missing)) != std::string::npos;
    const std::string who =
        "; of this machine rank " + machine_ranks_.NamesOf(missing) + " has not begun it";
    if (!says_it) ended.status = {StatusCode::kDeadlineExceeded, text + who};
  }
  if (round.facts.how == Combine::kLast && ended.status.ok()) {
    joined_ = 0;
    lanes_.Tell(protocol::to_lane::Joined());
  }
  SayTo(round.begun, ended);
  round.end = std::move(ended);
  EraseIfOver(key);
}

// Keeps the end of a round for ranks that have still to begin it.
void Uplink::EraseIfOver(const RoundKey& key) {
  auto found = rounds_.find(key);
  if (found == rounds_.end() || !found->second.end.has_value()) return;
  const Round& round = found->second;
  if ((round.facts.ranks & ~round.begun & ~left_) == 0 || round.is_open) rounds_.erase(found);
}

void Uplink::Close(const Status& why) {
  if (std::exchange(closed_, true)) return;
  const bool has_left = why.ok() || why.code() == StatusCode::kShutdown;
  SayTo(FirstRanks(ranks_),
        has_left ? MemberWords::ToRank(CarrierLeaves()) : MemberWords::ToRank(JobOver{why}));
}

std::string Uplink::LackOf(RankSet missing) const {
  return " has no part of rank " + machine_ranks_.NamesOf(missing);
}

void Uplink::SayTo(RankSet ranks, const MemberWords::ToRank& word) {
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    if (Has(ranks, rank)) events_.say(rank, word);
  }
}

}  // namespace byteps::machine
