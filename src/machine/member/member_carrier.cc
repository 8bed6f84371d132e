#include "src/machine/member/member_carrier.h"

#include <algorithm>
#include <bit>
#include <variant>

#include "src/machine/member/run_spans.h"
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

MemberCarrier::MemberCarrier(uint32_t ranks, uint32_t lanes, size_t piece_bytes_max,
                             BlockTransfers& transfers, Events events)
    : ranks_(ranks),
      lane_count_(lanes),
      transfers_(transfers),
      events_(std::move(events)),
      memory_(piece_bytes_max),
      lanes_(lanes, [this](uint32_t lane,
                           protocol::LaneMail mail) { events_.to_lane(lane, std::move(mail)); }),
      exchanges_(lanes_, protocol::kFrontRules),
      choice_(ranks, ChoiceEvents()) {}

SumsChoice::Events MemberCarrier::ChoiceEvents() {
  SumsChoice::Events events;
  events.plan = events_.plan;
  events.say_so = [this](uint32_t rank, const SumsSo& word) { events_.say(rank, word); };
  events.say_over = [this](uint32_t rank, const GroupOver& word) { events_.say(rank, word); };
  events.tell = events_.tell;
  events.decided = [this](const std::vector<plan::DeviceGroup>& groups) {
    if (!groups.empty()) transfers_.SetGroups(groups);
    LookAtAll();
  };
  return events;
}

MemberCarrier::~MemberCarrier() = default;

void MemberCarrier::OnView(const protocol::to_lane::View& mail) {
  bool begins = slot_ == kNoSlot || mail.view->generation != generation_;
  slot_ = mail.slot;
  generation_ = mail.view->generation;
  shards_end_ = ShardsEnd(*mail.view);
  machine_ranks_.Take(mail.view->workers, slot_);
  transfers_.SetPlaces(machine_ranks_.Places(mail.view->sum_group),
                       kernels::NodesFor(mail.view->same_bits));
  gone_.clear();
  for (const wire::WorkerInfo& worker : mail.view->workers) {
    if (worker.left) gone_.push_back(worker.rank);
  }
  if (!begins) {
    lanes_.ChangeView(mail);
    if (settling_.asks()) Settle();
    return LookAtAll();
  }
  for (const RoundKey& key : book_.Keys()) transfers_.Close(key);
  book_.Clear();
  keys_.clear();
  homes_.clear();
  sets_.clear();
  exchanges_.Clear();
  lanes_.BeginGeneration(mail);
  for (auto early = std::exchange(early_, {}); auto& [rank, word] : early) Hear(rank, word);
}

void MemberCarrier::OnWord(uint32_t rank, const MemberWords::ToCarrier& word) {
  if (closed_) return;
  if (slot_ == kNoSlot) {
    early_.emplace_back(rank, word);
  } else {
    Hear(rank, word);
  }
}

void MemberCarrier::Hear(uint32_t rank, const MemberWords::ToCarrier& word) {
  std::visit([&](const auto& one) { On(rank, one); }, word);
}

void MemberCarrier::On(uint32_t rank, const member::Begun& word) {
  if (AreGone(Bit(rank))) return;  // it withdraws its own
  const bool is_join = word.facts.how == Combine::kLast;
  Round* round = book_.Begin(rank, word.key, word.facts.ranks, is_join, word.operations);
  if (round == nullptr) return;  // each rank withdraws its own
  State& state = round->extra;
  auto& homes = homes_[word.key.tensor];
  if (homes == nullptr || homes->size() < word.facts.homes.size()) {
    homes = std::make_shared<const std::vector<ShardId>>(word.facts.homes);
  }
  if (state.spans == nullptr) {
    state.facts = word.facts;
    state.facts.homes.clear();
    state.homes = homes;
    state.spans = std::make_unique<RunSpans>(state.facts, word.key.first_piece, memory_);
  }
  if (Status sound = Check(word, state); !sound.ok()) return events_.fail(sound);
  state.brings[rank] = {word.push_offset, word.push_bytes};
  if (word.on_device) state.on_device |= Bit(rank);
  if (state.end.has_value()) {
    events_.say(rank, *state.end);
    return EraseIfOver(word.key);
  }
  if (!word.no_input.ok()) return On(rank, Abort{word.key, word.no_input});
  Look(word.key);
}

// Checks what a word alone does not show (room/words.h has the rest): that a rank brings its part
// of the bytes that all ranks of the machine bring, and that each piece has a home among the
// shards.
Status MemberCarrier::Check(const member::Begun& word, const State& state) const {
  bool is_inside = word.push_bytes == 0;
  if (!state.facts.pieces.empty()) {
    const MemberFacts::Run& first = state.facts.pieces[0];
    is_inside = is_inside || (word.push_offset >= first.push_offset &&
                              uint64_t{word.push_offset} + word.push_bytes <=
                                  uint64_t{first.push_offset} + first.push_bytes);
  }
  const bool have_homes = state.homes->size() >= state.spans->end();
  const bool are_shards =
      std::ranges::all_of(word.facts.homes, [&](ShardId home) { return home < shards_end_; });
  if (is_inside && have_homes && are_shards) return Status::Ok();
  return {StatusCode::kProtocol,
          "a process of this machine said of '" + word.facts.name +
              "' what cannot be true in this job: restart the job, with one version of BytePS for "
              "all its processes"};
}

void MemberCarrier::On(uint32_t rank, const member::Joined& word) {
  book_.Join(rank);
  join_number_ = word.number;
  LookAtAll();
  // The machine takes no part when none of its ranks takes part; in a process set, when none of its
  // ranks in the set does.
  protocol::to_lane::Joined mail{join_number_, {}};
  if ((FirstRanks(ranks_) & ~book_.left() & ~book_.joined()) != 0) {
    for (RankSet left = book_.joined(); left != 0; left &= left - 1) {
      mail.ranks.Insert(machine_ranks_.RankOf(static_cast<uint32_t>(std::countr_zero(left))));
    }
  }
  lanes_.Tell(mail);
}

void MemberCarrier::On(uint32_t rank, const Abort& word) {
  Round* round = book_.Find(word.key);
  if (round == nullptr || (round->begun & Bit(rank)) == 0) return;
  const RankSet missing = round->is_decided ? 0 : book_.Missing(*round);
  const std::string whom = missing == 0
                               ? ""
                               : "; the machine of rank " +
                                     std::to_string(machine_ranks_.RankOf(rank)) + LackOf(missing);
  const Status why(word.why.code(), word.why.message() + whom);
  AskForError(word.key, *round, why);
  if (round->is_decided && !round->extra.end.has_value()) transfers_.BreakOff(word.key, why);
}

// Breaks off the rounds of a rank that leaves, because its bytes are there for a moment only.
void MemberCarrier::On(uint32_t rank, const Leaves&) {
  book_.Leave(rank);
  asks_.erase(rank);
  for (const RoundKey& key : book_.Keys()) {
    Round& round = *book_.Find(key);
    const bool goes_on = round.is_decided && !round.extra.end.has_value();
    if (!goes_on || (round.begun & Bit(rank)) == 0) continue;
    round.extra.broken = ErrorOfLeftRank(machine_ranks_.RankOf(rank));
    transfers_.Close(key);
    AskForError(key, round, round.extra.broken);
  }
  EndGroups(Status::Ok());
  events_.say(rank, MayLeave());
  LookAtAll();
}

// Lets no launch follow, and every rank let go of its group.
void MemberCarrier::EndGroups(const Status& why) {
  transfers_.StopLaunches();
  choice_.End(why);
}

// The rounds that are under way in groups end in an error. Later ones go through the window.
void MemberCarrier::On(uint32_t rank, const Broken& word) {
  transfers_.StopLaunches();
  const Status why = choice_.OnBroken(machine_ranks_.RankOf(rank), word);
  if (why.ok()) return;
  for (const RoundKey& key : book_.Keys()) {
    Round& round = *book_.Find(key);
    if (!round.extra.by_group || round.extra.end.has_value()) continue;
    AskForError(key, round, why);
    transfers_.BreakOff(key, why);
  }
}

void MemberCarrier::On(uint32_t rank, const member::SetAdded& word) {
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

void MemberCarrier::On(uint32_t rank, const member::SetRemoved& word) {
  auto found = sets_.find(word.number);
  if (found == sets_.end()) return;
  found->second.added &= ~Bit(rank);
  if (found->second.added != 0) return;
  sets_.erase(found);
  lanes_.Tell(protocol::to_lane::RemoveProcessSet{word.number});
}

// Drops the rounds. The names tell each rank that they are retired, and the rank withdraws.
void MemberCarrier::On(uint32_t, const member::Retired& word) {
  std::vector<TensorId> fresh;
  for (TensorId tensor : word.tensors) {
    if (book_.IsRetired(tensor)) continue;
    book_.Retire(tensor, 0);
    fresh.push_back(tensor);
    homes_.erase(tensor);
    for (const RoundKey& key : book_.KeysOf(tensor, 0)) Drop(key);
  }
  lanes_.Retire(fresh);
}

void MemberCarrier::Drop(const RoundKey& key) {
  Round& round = *book_.Find(key);
  if (round.ranks == 0) return;  // it is dropped, and not every lane has released it
  transfers_.Close(key);
  round.begun = round.ranks = 0;  // nobody is told of its end
  if (round.extra.serial == 0 || round.extra.end.has_value()) return book_.Erase(key);
  OnEnd(exchanges_.Withdraw(round.extra.serial));
}

// Forgets the tensors. Each rank says the word. A slow rank has said before that they are retired.
// Ranks that have left hold no tensor any more, and withdraw what they have begun. No server ends
// that: it has forgotten the tensors, too.
void MemberCarrier::On(uint32_t, const member::Forgotten& word) {
  for (TensorId tensor : word.tensors) {
    for (const RoundKey& key : book_.KeysOf(tensor, 0)) {
      const Round& round = *book_.Find(key);
      const bool is_open = round.extra.serial != 0 && !round.extra.end.has_value();
      if (is_open && !AreGone(round.begun)) {
        return events_.fail({StatusCode::kProtocol,
                             "a process of this machine has forgotten '" + round.extra.facts.name +
                                 "', which others exchange; restart the job"});
      }
      Drop(key);
    }
    book_.Forget(tensor);
    homes_.erase(tensor);
  }
  lanes_.Forget(word.tensors);
}

void MemberCarrier::On(uint32_t rank, const member::AsksSettled& word) {
  asks_[rank] = word.question;
  Settle();
}

void MemberCarrier::Settle() { lanes_.Tell(settling_.Ask(lane_count_)); }

void MemberCarrier::LookAtAll() {
  for (const RoundKey& key : book_.Keys()) Look(key);
}

void MemberCarrier::Look(const RoundKey& key) {
  Round* found = book_.Find(key);
  if (found == nullptr) return;
  Round& round = *found;
  const State& state = round.extra;
  if (state.end.has_value()) return EraseIfOver(key);
  if (round.is_decided || state.serial != 0) return;
  if (book_.Missing(round) != 0) {
    // Asks for the error here, because nobody else might ever ask for it.
    std::optional<uint32_t> gone = GoneOf(state.facts.process_set);
    const RankSet here = book_.Gone(round);
    if (!gone.has_value() && here != 0) {
      gone = machine_ranks_.RankOf(static_cast<uint32_t>(std::countr_zero(here)));
    }
    if (gone.has_value()) AskForError(key, round, ErrorOfLeftRank(*gone));
    return;
  }
  const bool from_here = state.facts.root == slot_ && state.facts.how == Combine::kOverlay;
  const bool brings =
      std::ranges::any_of(state.brings, [](const auto& one) { return one.second.second != 0; });
  const bool has_bytes = !state.facts.pieces.empty() && state.facts.pieces[0].bytes != 0;
  if (from_here && !brings && has_bytes) {
    return AskForError(key, round,
                       ErrorOfJoinedRoot(machine_ranks_.NamesOf(book_.joined() & round.ranks)));
  }
  if (MayLaunch(round) && !choice_.is_decided()) return;
  OpenTransfers(key, round);
  Begin(key, round);
}

// Returns whether groups can sum the round: every rank of the machine takes part, with memory on
// its device. An atomic round may be pushed again, and reduces write over the output.
bool MemberCarrier::MayLaunch(const Round& round) const {
  const MemberFacts& facts = round.extra.facts;
  const RankSet all = FirstRanks(ranks_);
  const bool has_bytes = !facts.pieces.empty() && facts.pieces[0].bytes != 0;
  return round.extra.on_device == all && round.begun == all && round.ranks == all &&
         book_.left() == 0 && !facts.atomic && has_bytes &&
         device::CanReduce(facts.type, InGroup(facts.how));
}

// Returns whether all these ranks of the machine have left the job. The view tells it before the
// ranks say so here, or after that.
bool MemberCarrier::AreGone(RankSet ranks) const {
  for (RankSet left = ranks & ~book_.left(); left != 0; left &= left - 1) {
    const auto local_rank = static_cast<uint32_t>(std::countr_zero(left));
    if (std::ranges::find(gone_, machine_ranks_.RankOf(local_rank)) == gone_.end()) return false;
  }
  return true;
}

std::optional<uint32_t> MemberCarrier::GoneOf(uint32_t process_set) const {
  if (gone_.empty()) return std::nullopt;
  if (process_set == 0) return gone_.front();
  auto set = sets_.find(process_set);
  if (set == sets_.end()) return std::nullopt;
  for (uint32_t rank : gone_) {
    if (std::ranges::find(set->second.ranks, rank) != set->second.ranks.end()) return rank;
  }
  return std::nullopt;
}

void MemberCarrier::OpenTransfers(const RoundKey& key, Round& round) {
  round.is_decided = true;
  TransferRound open;
  open.ranks = round.ranks & round.begun;
  open.bring = round.is_join ? Bit(round.last.who()) : open.ranks;
  open.how = round.extra.facts.how;
  open.type = round.extra.facts.type;
  const bool has_gaps = open.ranks != round.ranks && round.extra.facts.how == Combine::kOverlay;
  const bool one_piece = round.extra.spans->end() == key.first_piece + 1;
  for (const auto& [rank, part] : round.extra.brings) {
    if (has_gaps && one_piece) open.parts.push_back(part);
  }
  round.extra.by_group = choice_.has_groups() && MayLaunch(round);
  if (round.extra.by_group) {
    const MemberFacts& facts = round.extra.facts;
    GroupRound& units = open.by_group.emplace();
    units.priority = facts.priority;
    units.order = facts.order;
    units.type = facts.type;
    units.how = InGroup(facts.how);
    for (const MemberFacts::Run& run : facts.pieces) units.pieces.push_back({run.count, run.bytes});
  }
  transfers_.Open(key, std::move(open));
}

void MemberCarrier::Begin(const RoundKey& key, Round& round) {
  protocol::Exchange exchange;
  const MemberFacts& facts = round.extra.facts;
  exchange.name = facts.name;
  exchange.tensor = {key.tensor, facts.how, facts.type, facts.codec, facts.process_set};
  exchange.use = key.use;
  exchange.order = facts.order;
  exchange.priority = facts.priority;
  exchange.first_piece = key.first_piece;
  exchange.count = round.extra.spans->end() - key.first_piece;
  exchange.homes = round.extra.homes.get();
  exchange.spans = round.extra.spans.get();
  if (facts.root != kNoRank) exchange.root = facts.root;
  exchange.atomic = facts.atomic;
  exchange.others_wait = facts.others_wait;
  keys_[++last_number_] = key;
  round.extra.serial = exchanges_.Begin(last_number_, exchange);
}

// Asks the owners for an error; they decide. Some ranks may not have begun the round, because only
// the request is pushed.
void MemberCarrier::AskForError(const RoundKey& key, Round& round, const Status& why) {
  if (round.extra.end.has_value()) return;
  if (round.extra.serial == 0) Begin(key, round);
  exchanges_.Abort(round.extra.serial, why);
}

void MemberCarrier::OnMail(protocol::FrontMail mail) {
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

void MemberCarrier::OnEnd(const std::optional<protocol::Exchanges::End>& end) {
  if (!end.has_value()) return;
  auto number = keys_.find(end->operation);
  if (number == keys_.end()) return;
  const RoundKey key = number->second;
  keys_.erase(number);
  Round* found = book_.Find(key);
  if (found == nullptr) return;
  Round& round = *found;
  transfers_.Close(key);
  member::Ended ended{key, end->status, {}, end->mixed};
  if (end->status.ok() && !round.extra.broken.ok()) ended.status = round.extra.broken;
  if (end->status.ok() && !end->withdrawn && !round.is_decided && round.extra.broken.ok()) {
    ended.status = {StatusCode::kInternal, "'" + round.extra.facts.name +
                                               "' ended without the ranks of this machine; this "
                                               "is a fault of the program"};
  }
  if (ended.status.ok() && end->receipt != nullptr) ended.receipt = end->receipt->List();
  // Another machine has asked for the error, and no shard knows which rank of this machine has not
  // come.
  const RankSet missing = round.is_decided ? 0 : book_.Missing(round) & ~book_.left();
  if (ended.status.code() == StatusCode::kDeadlineExceeded && missing != 0) {
    const std::string text = ended.status.message();
    const bool says_it = text.find(LackOf(missing)) != std::string::npos;
    const std::string who =
        "; of this machine rank " + machine_ranks_.NamesOf(missing) + " has not begun it";
    if (!says_it) ended.status = {StatusCode::kDeadlineExceeded, text + who};
  }
  if (round.is_join && ended.status.ok()) {
    book_.EndJoin();
    lanes_.Tell(protocol::to_lane::Joined());
  }
  SayTo(round.begun, ended);
  round.extra.end = std::move(ended);
  EraseIfOver(key);
}

// Keeps the end of a round for ranks that have still to begin it.
void MemberCarrier::EraseIfOver(const RoundKey& key) {
  const Round* round = book_.Find(key);
  if (round == nullptr || !round->extra.end.has_value()) return;
  if (book_.IsLast(*round) || round->is_decided) book_.Erase(key);
}

void MemberCarrier::Close(const Status& why) {
  if (std::exchange(closed_, true)) return;
  const bool has_left = why.ok() || why.code() == StatusCode::kShutdown;
  EndGroups(has_left ? Status::Ok() : why);
  SayTo(FirstRanks(ranks_),
        has_left ? MemberWords::ToRank(CarrierLeaves()) : MemberWords::ToRank(JobOver{why}));
}

std::string MemberCarrier::LackOf(RankSet missing) const {
  return " has nothing from rank " + machine_ranks_.NamesOf(missing);
}

void MemberCarrier::SayTo(RankSet ranks, const MemberWords::ToRank& word) {
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    if (Has(ranks, rank)) events_.say(rank, word);
  }
}

}  // namespace byteps::machine
