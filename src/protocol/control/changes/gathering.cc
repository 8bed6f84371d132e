#include "src/protocol/control/changes/gathering.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "src/base/text.h"
#include "src/protocol/control/members/waiting_contributors.h"
#include "src/protocol/control/views/next_view.h"
#include "src/protocol/control/views/sum_order.h"

namespace byteps::protocol {
namespace {

constexpr Duration kPauseMax = seconds(60);
// While no worker is here, the workers' programs most likely still load. The first report comes so
// many times later then.
constexpr int kPausesUntilOneIsHere = 3;
constexpr size_t kNumbersShownMax = 8;

}  // namespace

Gathering::Gathering(const Surroundings& around, JobMembers& members, JobEnd& job_end,
                     const wire::View& in_force)
    : around_(around),
      members_(members),
      job_end_(job_end),
      view_(in_force),
      since_(around.clock.now()),
      pause_(around.options.report_every) {
  BeginToWait();
}

bool Gathering::SomebodyWaits() const {
  if (!on_) return false;
  return view_.epoch == 0 || members_.roster.Count(Role::kWorker, false) > 0;
}

void Gathering::BeginToWait() {
  late_ = false;
  since_ = around_.clock.now();
  pause_ = around_.options.report_every;
  bool any = members_.roster.Count(Role::kWorker, false) > 0;
  next_report_ = since_ + (any ? 1 : kPausesUntilOneIsHere) * pause_;
  Duration shows = around_.options.show_every;
  next_show_ = shows == Duration::zero() ? Time::max() : since_ + shows;
}

void Gathering::BeginAgain() {
  on_ = true;
  refusals_.Forget();
  BeginToWait();
  worker_count_.reset();
  for (const auto& [id, member] : members_.roster.all()) {
    if (member.role() == Role::kWorker && member.presence == Presence::kWaiting) {
      worker_count_ = member.join.worker_count;
    }
  }
}

void Gathering::Stop() {
  if (on_) around_.driver.Begun();
  on_ = false;
  refusals_.Forget();
  late_ = false;
}

void Gathering::OnWorker(const wire::Join& join) {
  bool first = on_ && view_.epoch > 0 && !SomebodyWaits();
  if (first) BeginToWait();  // the gathering of the next generation begins
  bool has_told = pause_ > around_.options.report_every;
  if (!has_told) next_report_ = std::min(next_report_, around_.clock.now() + pause_);
  worker_count_ = join.worker_count;
}

void Gathering::OnWithdrawn() {
  if (on_ && members_.roster.Count(Role::kWorker, false) == 0) worker_count_.reset();
}

void Gathering::NoteRefusal(const Refusal& refusal) {
  if (refusals_.Note(refusal)) around_.driver.Report(Describe(refusal));
}

std::optional<wire::View> Gathering::NextGeneration() {
  EndIfTooFewCome();
  if (job_end_.IsOver() || !AllHere()) return std::nullopt;
  members_.roster.GiveIndices();
  wire::View next = FirstOfGeneration(view_, members_.roster, members_.departures, *worker_count_);
  if (view_.epoch == 0) next.founder = around_.options.nonce;
  Status sound = Weigh(next, members_.roster);
  if (sound.ok()) sound = CheckSums(next);
  if (sound.ok()) return next;
  job_end_.End(sound);
  return std::nullopt;
}

bool Gathering::AllHere() const {
  if (!worker_count_.has_value()) return false;
  const std::vector<WaitingContributor> waiting = WaitingContributors(members_.roster);
  uint32_t here = CountWhole(waiting);
  uint32_t connected = members_.roster.Count(Role::kWorker, false);
  uint32_t absent = members_.ends.CountAbsent(members_.roster, *worker_count_);
  bool some_meet = std::ranges::any_of(waiting, &WaitingContributor::meets);
  bool no_more_come = late_ || (connected + absent >= *worker_count_ && !some_meet);
  bool goes_without = Elastic() && here >= around_.options.min_workers && no_more_come;
  if (here != *worker_count_ && !goes_without) return false;
  if (view_.epoch == 0) {
    return members_.roster.Count(Role::kServer, false) == around_.options.server_count;
  }
  // Later generations begin with the servers that are left.
  wire::View next = view_;
  PlaceServers(next, members_.roster, members_.departures, next.epoch + 1);
  return AnyServer(next);
}

// Waiting processes need not wait for the whole time if it is known that too few come.
void Gathering::EndIfTooFewCome() {
  if (!worker_count_.has_value() || members_.roster.Count(Role::kWorker, false) == 0) return;
  uint32_t absent = members_.ends.CountAbsent(members_.roster, *worker_count_);
  uint32_t needed = Elastic() ? around_.options.min_workers : *worker_count_;
  if (absent == 0 || *worker_count_ - std::min(absent, *worker_count_) >= needed) return;
  std::vector<uint32_t> ranks(members_.ends.ranks().begin(), members_.ends.ranks().end());
  job_end_.End({StatusCode::kPeerLost,
                "the job cannot start: " + std::string(ranks.size() == 1 ? "worker " : "workers ") +
                    ListText(ranks, kNumbersShownMax) + " ended before joining it, and it needs " +
                    std::to_string(needed) + (needed == 1 ? " worker" : " workers") +
                    refusals_.Describe()});
}

Time Gathering::NextDue() const {
  Time next = std::min(next_report_, next_show_);
  return late_ ? next : std::min(next, since_ + around_.options.start_timeout);
}

void Gathering::DoWhatIsDue() {
  Time now = around_.clock.now();
  if (now >= since_ + around_.options.start_timeout) {
    bool first = !std::exchange(late_, true);
    if (AllHere() && first) {
      around_.driver.Report("starting with those who are here: " + Missing());
    }
    if (!AllHere()) {
      return job_end_.End({StatusCode::kDeadlineExceeded,
                           "the job did not start: " + Missing() +
                               "; start what is missing, or raise BYTEPS_START_TIMEOUT"});
    }
  }
  if (now >= std::min(next_report_, next_show_)) SayWhoIsMissing();
}

void Gathering::SayWhoIsMissing() {
  Time now = around_.clock.now();
  std::string text = Missing();
  around_.driver.Waiting(text);
  if (now >= next_show_) next_show_ = now + around_.options.show_every;
  if (now < next_report_) return;
  pause_ = std::min(2 * pause_, kPauseMax);
  next_report_ = now + pause_;
  TellWaiting(text);
}

// One worker of each host hears the text, the first of its workers that is here. Servers hear it,
// too, because they say where they are.
void Gathering::TellWaiting(const std::string& text) const {
  std::map<std::string, const Member*> voices;
  for (const auto& [id, member] : members_.roster.all()) {
    if (member.presence == Presence::kLeft) continue;
    if (member.role() != Role::kWorker) {
      around_.driver.Send(id, wire::Waiting{text});
      continue;
    }
    const Member*& voice = voices[member.join.host];
    bool first = voice == nullptr || member.join.local_rank < voice->join.local_rank;
    if (first) voice = &member;
  }
  for (const auto& [host, member] : voices) {
    around_.driver.Send(member->connection, wire::Waiting{text});
  }
}

std::string Gathering::Missing() const {
  std::string text;
  auto expected_of = [&](Role role) {
    return role == Role::kWorker ? worker_count_.value_or(around_.options.worker_machines)
                                 : around_.options.server_count;
  };
  for (Role role : {Role::kWorker, Role::kServer}) {
    text += (role == Role::kWorker ? "" : ", ") +
            std::to_string(members_.roster.Count(role, false)) + "/" +
            std::to_string(expected_of(role)) + " " + WordFor(role) + "s";
  }
  for (Role role : {Role::kWorker, Role::kServer}) {
    bool worker = role == Role::kWorker;
    uint32_t expected = expected_of(role);
    std::set<uint32_t> here;
    for (const auto& [id, member] : members_.roster.all()) {
      if (member.role() == role && member.presence != Presence::kLeft) here.insert(member.index);
    }
    bool numbered = !here.contains(kNoSlot);
    std::vector<uint32_t> missing;
    for (uint32_t i = 0; i < expected; ++i) {
      if (!here.contains(i)) missing.push_back(i);
    }
    uint32_t count = expected - std::min(expected, members_.roster.Count(role, false));
    if (count == 0) continue;
    text += std::string("; missing ") + (numbered && worker ? "" : std::to_string(count) + " ") +
            WordFor(role) + (count == 1 ? "" : "s");
    if (numbered && worker) text += " " + ListText(missing, kNumbersShownMax);
  }
  for (const WaitingContributor& one : WaitingContributors(members_.roster)) {
    if (!one.IsWhole() && !one.meets) text += "; " + LackOf(one);
  }
  return text + "; waited " + SecondsText(around_.clock.now() - since_) + refusals_.Describe();
}

}  // namespace byteps::protocol
