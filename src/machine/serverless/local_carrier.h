// The carrier's part of a job without servers: decides what names stand for, gives complete rounds
// their blocks, and ends rounds in errors. The ranks speak to it in words. The process of rank 0
// has it, beside its own lane.
//
// On the thread of its window. No I/O, no clock; nothing blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/base/time.h"
#include "src/local/window.h"
#include "src/machine/room/sums_choice.h"
#include "src/machine/serverless/block_queue.h"
#include "src/machine/serverless/local_rounds.h"
#include "src/machine/serverless/local_words.h"
#include "src/protocol/control/names/declarations.h"
#include "src/protocol/control/seeing/accounts.h"
#include "src/protocol/control/seeing/job_status.h"

namespace byteps::machine {

struct LocalCarrierOptions {
  uint32_t ranks = 1;
  uint32_t piece_bytes_max = 0;
  // The time from the word of a rank that is stuck to the search for a circle; other stuck ranks
  // report meanwhile.
  Duration judge_after = milliseconds(500);
  // `stall_after`: CoordinatorOptions::stall_after. `report` gets lines for people; null: nobody
  // gets them.
  Duration stall_after{};
  std::function<void(const std::string&)> report = nullptr;
  SmallMemory small{};
  // The ranks' processes, for people; 0, or no entry: not known.
  std::vector<uint32_t> processes{};
  std::string node{};      // the host's name, for people
  uint32_t sum_group = 1;  // as in wire::View, like `same_bits`
  bool same_bits = false;
  // The time between two accounts of a rank.
  Duration account_every = milliseconds(200);
  // Begins to plan how the ranks' devices sum; OnPlan or OnGroupLimit follows. Null: no rank says
  // HasDevice. `tell` gets lines for people about groups of devices.
  std::function<void(const std::vector<HasDevice>&)> plan = nullptr;
  std::function<void(const std::string& line, bool is_warning)> tell = nullptr;
  UnitLimits units{};
};

class LocalCarrier {
 public:
  using Say = std::function<void(uint32_t rank, const LocalWords::ToRank& word)>;
  LocalCarrier(local::Window& window, const LocalCarrierOptions& options, Say say);

  // Takes a word of a rank. Answers to it do not come back into this call.
  void OnWord(uint32_t rank, const LocalWords::ToCarrier& word, Time now);
  // Gives blocks, and says launches; true: it did any of that. Must be called after each event of
  // the window.
  bool Admit();
  // Take the plan for groups of devices, and the news that they were not ready after this time.
  void OnPlan(const PlannedSums& plan) { choice_.OnPlan(plan); }
  void OnGroupLimit(const std::string& limit) { choice_.OnLimit(limit); }
  // The carrier's rank has seen the end of the next launch.
  void OnLaunchEnd() { blocks_.OnLaunchEnd(); }
  // Returns whether no complete round is under way.
  bool IsIdle() const { return blocks_.IsIdle(); }
  // Returns LocalRounds::KeepsErrors.
  bool KeepsErrors() const { return rounds_.KeepsErrors(); }
  // Says that the carrier's own rank leaves, so that nobody carries any more.
  void Close();

  // Returns the state of the job, for people.
  protocol::JobStatus Describe(Time now) const;

  std::optional<Time> NextTick() const;
  // REQUIRES: now >= NextTick().
  void OnTick(Time now);

 private:
  void On(uint32_t rank, const Begun& word) { rounds_.OnBegun(rank, word); }
  void On(uint32_t rank, const Joined&) { rounds_.OnJoined(rank); }
  void On(uint32_t rank, const Abort& word) { rounds_.OnAbort(rank, word); }
  void On(uint32_t rank, const Leaves&);
  void On(uint32_t rank, const GaveUp& word);
  void On(uint32_t rank, const HasDevice& word) { choice_.OnDevice(rank, word); }
  void On(uint32_t rank, const Met& word) { choice_.OnMet(rank, word); }
  void On(uint32_t rank, const Broken& word);
  void On(uint32_t rank, const wire::Message& message);

  std::string NameOf(uint32_t rank) const;
  uint32_t ProcessOf(uint32_t rank) const;
  LocalRounds::Events RoundEvents();
  SumsChoice::Events ChoiceEvents();
  bool OnComplete(const RoundKey& key, const CompleteRound& round);
  bool MayLaunch(const CompleteRound& round) const;
  void SayTo(RankSet ranks, const LocalWords::ToRank& word);
  void Deliver(const protocol::Declarations::Answers& answers);

  const LocalCarrierOptions options_;
  local::Window& window_;
  kernels::SumTree tree_;  // scratch
  const Say say_;
  protocol::Declarations names_;
  BlockQueue blocks_;
  LocalRounds rounds_;
  SumsChoice choice_;
  Time now_{};
  std::optional<Time> judge_at_;  // when to search for a circle of stuck ranks
  protocol::Accounts accounts_;
};

// Returns the error of a job without servers that has lost a worker.
Status WasLost(uint32_t rank, const std::string& why);

}  // namespace byteps::machine
