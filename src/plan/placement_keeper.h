// Keeps the placement right while nobody says how fast the links are: learns their rates from the
// traffic, and says when pieces should move (docs/decisions/0028-measured-links.md).
//
// What a sample of the traffic shows of a host whose servers combine:
//   * Its servers were as busy as any: they hold up the others, or nobody does, and its link
//     carries what it carried.
//   * They were less busy: others held them up. Its link carries more than it did, by as much as
//     they were idle, and not less than it was once seen to carry.
// A link that was never seen at its limit counts as the fastest one: the rates of machines in one
// job are mostly equal. A worker's link without a server beside it never counts as the limit: where
// it is one, no placement helps.
//
// Of several samples, a series, only the one counts in which the job was fastest: a processor that
// is busy with other work slows a job down, and never makes it faster. One series moves pieces if
// much is to be gained; if little, several series must agree. Moves are rationed: there are a few
// for the start and for real changes, and a new one for every so many series, so that no noise
// moves pieces to and fro for long. A move after which the job is not faster is undone
// (move_trial.h).
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
  // REQUIRES: one entry for each host.
  std::optional<Shares> Observe(std::span<const Traffic> traffic);

  // Whether the last move that Observe asked for undoes the one before it.
  bool moves_back() const { return moves_back_; }
  // In bytes per second; 0: nothing is known.
  const std::vector<double>& rates() const { return rates_; }
  // The time of a round with the shares in force over that with the best ones, when last asked.
  double gain() const { return gain_; }

 private:
  void Forget();
  bool AllAnswer(std::span<const Traffic> traffic) const;
  bool Collect(std::span<const Traffic> traffic, double job_rate);
  void Learn(std::span<const Traffic> traffic);
  std::vector<Host> HostsAsKnown() const;
  std::optional<Shares> Improve(double pace);

  std::vector<Host> hosts_;
  std::vector<double> shares_;
  std::vector<double> rates_;
  std::vector<bool> at_limit_;  // it was seen there
  // What it seemed to carry in the series before, beyond its limit; or 0.
  std::vector<double> more_;
  double gain_ = 1;
  uint32_t samples_ = 0;          // of this series
  double sum_ = 0;                // of the job rates in them
  double fastest_ = 0;            // job rate in them, ...
  std::vector<Traffic> traffic_;  // ... and what it was like
  uint32_t agree_ = 0;            // series one after the other in which moving was worth it
  uint32_t moves_left_ = 0;
  uint32_t series_ = 0;  // since there was one more
  bool settling_ = false;
  MoveTrial trial_;
  double pace_ = 0;      // the best of the series that agree, in bytes of tensors per second
  bool moving_ = false;  // the next Begin is the answer to Observe
  bool moves_back_ = false;
};

}  // namespace byteps::plan
