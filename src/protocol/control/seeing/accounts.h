// The latest account of each worker (wire::Account), and the conclusions from all of them together:
// which operations do not end, and which ranks have not come to them. The same of servers.
//
// A worker tells of operations that have been open for a second, and of copies from and to its
// devices that have been under way for as long. The coordinator then asks the others how far they
// are with the same uses. All this is for people, except one thing: a rank that
// has joined hears for how long the ranks that it waits for have ended nothing, and ends its join
// at its limit.
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
#include "src/wire/accounts.h"
#include "src/wire/names.h"

namespace byteps::protocol {

class Accounts {
 public:
  struct Teller {
    uint64_t incarnation = 0;
    wire::Account account;
    Time at{};
    double operations_per_s = 0;  // over the last seconds
    double bytes_per_s = 0;
    double waited_share = 0;  // of the time, 0 to 1
    Time ended_at{};          // when the coordinator first heard that so many operations have ended
  };
  struct ServerTeller {
    wire::ServerAccount account;
    Time at{};
    double received_per_s = 0;  // bytes, over the last seconds, like the next two
    double sent_per_s = 0;
    double cpu_share = 0;  // of one core
  };
  // A use that a rank has had open for a while, and how far each rank is with it. Ranks ascend.
  struct Wait {
    wire::NamedUse use;
    TensorId tensor = UINT32_MAX;
    Duration age{};  // how long the rank has waited that has waited longest
    std::vector<uint32_t> waiting;
    std::vector<uint32_t> missing;                      // these have not begun it
    std::vector<uint32_t> silent;                       // these have not answered
    wire::UseStage stage = wire::UseStage::kExchanges;  // the earliest stage of those that wait
    std::optional<Duration> left;  // until the first waiting rank passes its limit
  };

  // `stall_after`: zero means no reports.
  explicit Accounts(Duration stall_after) : stall_after_(stall_after) {}

  void Take(uint32_t rank, uint64_t incarnation, const wire::Account& account, Time now);
  void TakeServer(uint64_t incarnation, const wire::ServerAccount& account, Time now);
  // Begins a generation: uses are counted from 1 again.
  void BeginGeneration() { lateness_.BeginGeneration(); }
  // Forgets the members for which `gone` is true.
  void ForgetIf(const std::function<bool(uint64_t)>& gone);

  // The uses of which workers are to be asked.
  const std::vector<wire::NamedUse>& asked() const { return asked_; }
  const std::map<uint32_t, Teller>& tellers() const { return tellers_; }        // by rank
  const std::map<uint64_t, ServerTeller>& servers() const { return servers_; }  // by incarnation
  const Lateness& lateness() const { return lateness_; }
  // Returns the waits, the longest first.
  std::vector<Wait> Waits(Time now) const;

  // Returns what a rank is to hear of uses in which it waits and whose limit it passes soon or has
  // passed. `name` returns the name of a rank.
  std::vector<wire::UseNote> NotesFor(uint32_t rank, Time now,
                                      const std::function<std::string(uint32_t)>& name);

  // The time at which a report is due; none: nothing has waited long enough.
  std::optional<Time> NextDue() const;
  // Makes the report now: lines for people, at most four, and none if all operations have gone on
  // meanwhile. `name` returns the name of a rank.
  std::vector<std::string> Report(Time now, const std::function<std::string(uint32_t)>& name);

 private:
  static void Rate(const Teller& before, Teller& now);
  void LookForWaits();
  bool MayAnswerSoon(const Wait& wait, Time now) const;
  std::vector<uint32_t> RanksOf(uint32_t process_set) const;
  std::string Doing(uint32_t rank, const std::string& tensor, Time now) const;
  std::optional<uint32_t> WhoCopies(const Wait& wait) const;
  Duration QuietOf(const Wait& wait, Time now) const;

  const Duration stall_after_;
  std::map<uint32_t, Teller> tellers_;
  std::map<uint64_t, ServerTeller> servers_;
  std::map<uint32_t, std::vector<uint32_t>> process_sets_;
  std::vector<wire::NamedUse> asked_;
  std::optional<Time> waiting_since_;  // since when the oldest open use has been open
  std::optional<Time> next_report_;
  std::vector<Wait> noted_;  // the waits of which notes are made
  std::optional<Time> noted_at_;
  Lateness lateness_;
};

}  // namespace byteps::protocol
