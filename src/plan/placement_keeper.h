// Keeps the placement right if nobody has declared the rates of the links: learns the rates from
// the traffic, and decides when pieces should move (docs/decisions/0028-measured-links.md).
//
// A measurement of the traffic shows one of two things about a host whose servers combine.
//   * Its servers were as busy as any. They hold up the others, or nobody does, and the measurement
//     shows the limit of the host's link.
//   * Its servers were less busy, because others held them up. The link may carry more, by as much
//     as the servers were idle, and not less than it once did. For a link that was seen at its
//     limit this is a guess, which is tried only if the placement is right for the known rates. If
//     the link then carries much more than that limit, its limit is not known any more.
// A link that was never seen at its limit counts as the fastest one, because the machines of a job
// mostly have equal links. The link of a worker without a server beside it never counts as the
// limit: if it is the limit, no placement helps.
//
// Several measurements make a period, in which the second best number of each host counts. A
// processor that is busy with other work makes a link look slow and idle, and never fast; the best
// measurement may have ended just after a piece by luck. One period moves pieces if the gain is
// great; otherwise several periods must agree. Moves are limited: there are a few for the start and
// for real changes, and one more after each kPeriodsPerMove periods, so that noise does not move
// pieces to and fro for long. A move after which the job is not faster is undone (move_trial.h).
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

// The traffic of one host in one measurement; only time in which the links set the pace.
struct Traffic {
  double rate = 0;  // bytes per second that it exchanged with other hosts, in each direction
  double busy = 0;  // its servers' part of the time with a piece of another host under way; 0 to 1
};

class PlacementKeeper {
 public:
  // Takes over the hosts of the job and the shares in force. A link other than 0 was declared, in
  // bytes per second, and the keeper learns nothing about it. The knowledge about hosts stays if
  // their number does.
  void Begin(std::vector<Host> hosts, std::vector<double> shares);

  // Learns from the next measurement. Returns the shares to move to, if that is worth it; the
  // caller calls Begin when the move is done. `in_bursts` is the pace of the bursts that ended
  // (move_trial.h); 0: none did. REQUIRES: one entry for each host.
  std::optional<Shares> Observe(std::span<const Traffic> traffic, double in_bursts = 0);

  // Returns whether the last move that Observe asked for undoes the one before it.
  bool moves_back() const { return moves_back_; }
  // Returns the rate of each host's link in bytes per second; 0: nothing is known.
  const std::vector<double>& rates() const { return rates_; }
  // Returns the time of a round with the shares in force, divided by the time with the best shares,
  // at the last look for better ones.
  double gain() const { return gain_; }

 private:
  void Forget();
  bool AllAnswer(std::span<const Traffic> traffic) const;
  bool Collect(std::span<const Traffic> traffic);
  std::vector<Traffic> TrafficOfPeriod() const;
  void Learn(std::span<const Traffic> traffic);
  void GuessBeyondLimit(size_t host, double rate, double busy);
  void GuessLimit(size_t host, double rate, double busy);
  void LearnFromTrialInVain();
  double FastestLimit() const;
  std::vector<Host> HostsAsKnown(bool guess) const;
  std::optional<Shares> BestFor(const std::vector<Host>& hosts);
  Pace PaceOfPeriod();
  std::optional<Shares> Improve(const Pace& pace);

  std::vector<Host> hosts_;
  std::vector<double> shares_;
  std::vector<double> rates_;
  std::vector<bool> at_limit_;  // the link was seen at its limit
  // Describes a link that may carry more than its limit. The `busy` values are parts of the time.
  struct Guess {
    double rate = 0;           // the rate that it may carry; 0: no more than its limit
    double busy = 1;           // in the last period
    double busy_of_two = 1;    // in the busier one of the last two
    double busy_at_limit = 1;  // when a guess was in vain; 1: none was
  };
  std::vector<Guess> guesses_;
  std::vector<Guess> tried_;   // guesses that are on trial; empty: none is
  std::vector<double> known_;  // the limits before the trial; 0: not seen
  double gain_ = 1;
  std::vector<std::vector<Traffic>> measurements_;  // the measurements of this period
  uint32_t agree_ = 0;  // periods one after the other in which moving was worth it
  uint32_t moves_left_ = 0;
  uint32_t periods_ = 0;  // periods since a move was added
  bool settling_ = false;
  MoveTrial trial_;
  Pace pace_;          // the best of the periods that agree
  double bursts_ = 0;  // the last known pace of bursts with these shares
  double bursts_of_period_ = 0;
  bool moving_ = false;  // the next Begin is the answer to Observe
  bool moves_back_ = false;
};

}  // namespace byteps::plan
