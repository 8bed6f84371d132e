// Judges a move of pieces by the pace of the job after it. Rates are estimates, and a move that
// follows a wrong one slows the job down. Then the pieces move back, and for a while nothing moves,
// unless the job itself changes.
//
// Pure: time is counted in periods of several measurements (placement_keeper.h). A value; one
// thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace byteps::plan {

// Bytes of tensors per second; 0: nothing is known.
struct Pace {
  // The pace while the credit is used up, which shows much, and soon.
  double full = 0;
  // The pace of whole bursts (exchange_meter.h). Only this number shows the gain of a move that
  // promises little: a server that is a little too slow lets the others wait at the end of a step.
  double bursts = 0;
};

// A move that promises more than this is no guess, and any pace shows its gain.
inline constexpr double kMuch = 1.4;
// If no burst has ended in so many periods, the pace between the ends must do.
inline constexpr uint32_t kPeriodsWithoutBursts = 12;

class MoveTrial {
 public:
  // Forgets everything.
  void Forget() { *this = {}; }

  // Begins the trial of a move away from these shares, with which `pace` was the job's best. A
  // round seems to become faster by `gain`. `is_known`: the move follows known rates and no guess;
  // if it does not pay, nothing is known, and no piece moves for a while.
  void Begin(std::vector<double> shares, const Pace& pace, double gain, bool is_known = true);

  // Learns from a complete period with the shares in force, in which the job had this `pace`.
  // Returns the shares to go back to if the last move did not pay.
  std::optional<std::vector<double>> Observe(const Pace& pace);

  // Returns whether pieces may move.
  bool MayMove() const { return before_.empty() && !(waits() && is_known_); }
  // Ends the wait, because the mistake of the last move is known now. Does nothing if two moves in
  // a row did not pay.
  void EndWait() {
    if (in_vain_ == 1) waits_ = 0;
  }
  // Returns whether the last move did not pay, not long ago.
  bool waits() const { return waits_ > 0; }
  // Returns whether the last period has shown that the last move was right.
  bool has_paid() const { return has_paid_; }

 private:
  bool PromisedMuch() const { return gain_ > kMuch; }
  bool HasChanged(const Pace& pace);
  std::optional<double> PartOfBefore(const Pace& pace);
  bool Harms(const Pace& pace) const;

  // The move that is on trial.
  std::vector<double> before_;  // empty: none
  Pace pace_;                   // the pace of the job before the move
  double gain_ = 1;             // the gain that the move promised
  bool is_known_ = true;
  uint32_t periods_ = 0;  // periods that showed a pace
  uint32_t silent_ = 0;   // periods that did not
  bool has_paid_ = false;

  // The state since the last move that did not pay.
  uint32_t waits_ = 0;    // periods until the next move
  uint32_t slow_ = 0;     // periods one after the other that were much slower than `pace_`
  uint32_t in_vain_ = 0;  // moves one after the other that did not pay
};

}  // namespace byteps::plan
