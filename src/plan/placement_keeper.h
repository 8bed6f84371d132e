// Keeps the placement right while nobody says how fast the links are: learns their rates from the
// traffic, and says when pieces should move (docs/decisions/0028-measured-links.md).
//
// What a sample of the traffic shows of a host whose servers combine:
//   * Its servers were as busy as any: they hold up the others, or nobody does, and its link
//     carries what it carried.
//   * They were less busy: others held them up. Its link may carry more than it did, by as much as
//     they were idle, and does not carry less than it was once seen to. Of a link that was seen at
//     its limit that is a guess, which is tried only where the placement is right for what is
//     known. If the link then carries much more than that limit, its limit is not known any more.
// A link that was never seen at its limit counts as the fastest one: the rates of machines in one
// job are mostly equal. A worker's link without a server beside it never counts as the limit: where
// it is one, no placement helps.
//
// Of several samples, a series, the second best number of each host counts: a processor that is
// busy with other work makes a link look slow and idle, and never fast, and the best sample is the
// one that by luck ended just after a piece. One series moves pieces if much is to be gained; if
// little, several series must agree. Moves are rationed: there are a few for the start and for real
// changes, and a new one for every so many series, so that no noise moves pieces to and fro for
// long. A move after which the job is not faster is undone (move_trial.h).
//
// Pure: no clock. A value; one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/plan/move_trial.h"
#include "src/plan/placement.h"

namespace byteps::plan {

// Of one host, in one sample; only time in which the links set the pace.
struct Traffic {
  double rate = 0;  // bytes per second that it exchanged with other hosts, in each direction
  double busy = 0;  // its servers' part of the time with a piece of another host under way; 0 to 1
};

class PlacementKeeper {
 public:
  // The job is made of these hosts, and the shares in force are `shares`. A link other than 0 was
  // declared, in bytes per second, and nothing is learnt of it. What is known of hosts stays if
  // their number does.
  void Begin(std::vector<Host> hosts, std::vector<double> shares);

  // The next sample. The shares to move to, if that is worth it; Begin tells when that is done.
  // `in_bursts` is the pace of the bursts that ended (move_trial.h); 0: none did.
  // REQUIRES: one entry for each host.
  std::optional<Shares> Observe(std::span<const Traffic> traffic, double in_bursts = 0);

  // Whether the last move that Observe asked for undoes the one before it.
  bool moves_back() const { return moves_back_; }
  // In bytes per second; 0: nothing is known.
  const std::vector<double>& rates() const { return rates_; }
  // The time of a round with the shares in force over that with the best ones, when last asked.
  double gain() const { return gain_; }

 private:
  void Forget();
  bool AllAnswer(std::span<const Traffic> traffic) const;
  bool Collect(std::span<const Traffic> traffic);
  std::vector<Traffic> TrafficOfSeries() const;
  void Learn(std::span<const Traffic> traffic);
  void GuessBeyondLimit(size_t host, double rate, double busy);
  void GuessLimit(size_t host, double rate, double busy);
  void LearnFromTrialInVain();
  double FastestLimit() const;
  std::vector<Host> HostsAsKnown(bool guess) const;
  std::optional<Shares> BestFor(const std::vector<Host>& hosts);
  Pace PaceOfSeries();
  std::optional<Shares> Improve(const Pace& pace);

  std::vector<Host> hosts_;
  std::vector<double> shares_;
  std::vector<double> rates_;
  std::vector<bool> at_limit_;  // it was seen there
  // Of a link that may carry more than its limit. `busy`: for which part of the time it was.
  struct Guess {
    double rate = 0;           // that it may carry; 0: no more than its limit
    double busy = 1;           // in the last series
    double busy_of_two = 1;    // in the busier one of the last two
    double busy_at_limit = 1;  // when a guess was in vain; 1: none was
  };
  std::vector<Guess> guesses_;
  std::vector<Guess> tried_;   // that are on trial; empty: none is
  std::vector<double> known_;  // the limits before the trial; 0: not seen
  double gain_ = 1;
  std::vector<std::vector<Traffic>> samples_;  // of this series
  uint32_t agree_ = 0;  // series one after the other in which moving was worth it
  uint32_t moves_left_ = 0;
  uint32_t series_ = 0;  // since there was one more
  bool settling_ = false;
  MoveTrial trial_;
  Pace pace_;          // the best of the series that agree
  double bursts_ = 0;  // the last pace of bursts that is known of these shares
  double bursts_of_series_ = 0;
  bool moving_ = false;  // the next Begin is the answer to Observe
  bool moves_back_ = false;
};

}  // namespace byteps::plan
