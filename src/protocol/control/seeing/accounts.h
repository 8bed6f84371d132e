// The latest account of each worker (wire::Account), and what follows from all of them together:
// which operations do not end, and who has not come to them.
//
// A worker tells of operations that are open for a second. The others are then asked how far they
// are with the same uses. This is for people, but for one thing: a rank that has joined hears for
// how long the ranks that it waits for have ended nothing, and ends its join at its limit.
//
// A value without I/O.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/base/time.h"
#include "src/protocol/control/seeing/lateness.h"
#include "src/wire/control.h"

namespace byteps::protocol {

class Accounts {
 public:
  struct Teller {
    uint64_t incarnation = 0;
    wire::Account account;
    Time at{};
    double operations_per_s = 0;  // of the last seconds
    double bytes_per_s = 0;
    Time ended_at{};  // when it was first heard that so many operations have ended
  };
  // A use that some rank has had open for a while, and who is where with it. Ascending ranks.
  struct Wait {
    wire::NamedUse use;
    TensorId tensor = UINT32_MAX;
    Duration age{};  // of the rank that has waited longest
    std::vector<uint32_t> waiting;
    std::vector<uint32_t> missing;                      // have not begun it
    std::vector<uint32_t> silent;                       // have not answered
    wire::UseStage stage = wire::UseStage::kExchanges;  // of those that wait, the earliest
    std::optional<Duration> left;  // until the first of those that wait passes its limit
  };

  // `stall_after` zero: no reports.
  explicit Accounts(Duration stall_after) : stall_after_(stall_after) {}

  void Take(uint32_t rank, uint64_t incarnation, const wire::Account& account, Time now);
  // Uses are counted from 1 again.
  void BeginGeneration() { lateness_.BeginGeneration(); }
  // Who is no member any more.
  void ForgetIf(const std::function<bool(uint64_t)>& gone);

  // What workers are to be asked about.
  const std::vector<wire::NamedUse>& asked() const { return asked_; }
  const std::map<uint32_t, Teller>& tellers() const { return tellers_; }  // by rank
  const Lateness& lateness() const { return lateness_; }
  // The longest first.
  std::vector<Wait> Waits(Time now) const;

  // What a rank is to hear of uses that it waits in, and that pass their limit soon or have passed
  // it. `name` is what a rank is called.
  std::vector<wire::UseNote> NotesFor(uint32_t rank, Time now,
                                      const std::function<std::string(uint32_t)>& name);

  // A report is due then; none: nothing has waited long enough.
  std::optional<Time> NextDue() const;
  // It is made now: lines for people, at most four, and none if all has gone on meanwhile. `name`
  // is what a rank is called.
  std::vector<std::string> Report(Time now, const std::function<std::string(uint32_t)>& name);

 private:
  static void Rate(const Teller& before, Teller& now);
  void LookForWaits();
  bool MayAnswerSoon(const Wait& wait, Time now) const;
  std::vector<uint32_t> RanksOf(uint32_t process_set) const;
  std::string Doing(uint32_t rank, Time now) const;
  Duration QuietOf(const Wait& wait, Time now) const;

  const Duration stall_after_;
  std::map<uint32_t, Teller> tellers_;
  std::map<uint32_t, std::vector<uint32_t>> process_sets_;
  std::vector<wire::NamedUse> asked_;
  std::optional<Time> waiting_since_;  // the oldest use that is open
  std::optional<Time> next_report_;
  std::vector<Wait> noted_;  // what notes are made of, and from when it is
  std::optional<Time> noted_at_;
  Lateness lateness_;
};

}  // namespace byteps::protocol
