// Decides how many bytes a worker may have between push and answer.
//
// Credit is a length of time, not a number of pieces: the bytes that the answers bring back in
// `CreditOptions::target`. With less, the links starve while a thread is late; more bytes only wait
// in queues, and an urgent tensor waits behind them. On a long path the credit is several round
// trips: a lost packet comes a round trip later and all bytes behind it wait for it, in both
// directions, and the congestion control keeps a round trip of its own in the queues. The
// controller measures the rate from answers while the credit is used up. While it is not, the
// application sets the pace and nothing can be learnt. Pure: time is an argument. A value; one
// owner, one thread.
#pragma once

#include <cstdint>

#include "src/base/time.h"

namespace byteps::plan {

struct CreditOptions {
  uint64_t fixed_bytes = 0;  // chosen by the user and never changed; 0 = measure
  Duration target = milliseconds(40);
  // A measurement takes at least this long, so that one late wake-up does not decide it, ...
  Duration interval_min = milliseconds(20);
  // ... or until the credit has come back so many times: a fast link ends a tensor before the time
  // above is over, and a late wake-up brings no more than one credit at once.
  uint32_t interval_turns = 32;
  // It takes at most this long: a longer one saw a peer stand still, not a link.
  Duration interval_max = milliseconds(400);
  uint64_t bytes_min = uint64_t{1} << 20;
  uint64_t bytes_max = uint64_t{4} << 20;
  // The credit may be so many times the rate times the round trip, whatever bytes_max says, up to
  // ...
  uint32_t round_trips = 8;
  uint64_t long_bytes_max = uint64_t{64} << 20;
  // Every shard needs a piece on its way there and one on its way back, whatever bytes_max says.
  uint32_t shards = 1;
  uint32_t piece_bytes_max = 32768;
};

class CreditController {
 public:
  explicit CreditController(const CreditOptions& options);

  // Learns from an answer of `bytes` that came at `now`. `credit_used_up` says whether the credit
  // held pieces back just before it (PriorityCreditQueue::IsBlocked). `now` never goes back.
  void OnAnswered(Time now, uint64_t bytes, bool credit_used_up);

  // Sets the round-trip time of the longest path; zero: not known.
  void SetRoundTrip(Duration round_trip) { round_trip_ = round_trip; }

  // Returns the credit to use now; at least 1.
  uint64_t credit_bytes() const { return credit_bytes_; }

 private:
  void Learn(uint64_t bytes, Duration elapsed);

  CreditOptions options_;
  uint64_t lowest_ = 0;
  uint64_t highest_ = 0;
  uint64_t credit_bytes_ = 0;
  bool measured_ = false;  // at least one measurement was taken
  bool measuring_ = false;
  Time interval_start_;
  uint64_t interval_bytes_ = 0;
  Duration round_trip_{};
};

}  // namespace byteps::plan
