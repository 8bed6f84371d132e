#include "src/plan/placement_keeper.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace byteps::plan {
namespace {

constexpr size_t kMeasurementsOfPeriod = 4;
// A move must make a round this much faster, and so many periods must agree about it. The pace of a
// whole burst must be known, because it will judge the move; if no burst ends for long, more
// periods must agree instead. One period is enough for a gain that is too great for noise, and
// after a guess that was right.
constexpr double kGainMin = 1.03;
constexpr uint32_t kAgree = 3;
constexpr uint32_t kMovesMax = 6;
constexpr uint32_t kPeriodsPerMove = 40;
// A server counts as busy as the busiest from this part on, because measurements are not exact.
constexpr double kAsBusy = 0.98;
// Idle time beyond this says no more about how fast a link is.
constexpr double kBusyMin = 0.6;
// A link that is busy for less than this part of its busy time at its limit may be faster now.
constexpr double kMoreIdle = 0.8;
// An estimate that is wrong by more than this is replaced.
constexpr double kChange = 0.3;
constexpr double kRateSmoothing = 0.5;
// A link that carries this much more than its limit has another limit, which is not known.
constexpr double kMore = 1.15;
// The rate of an unknown link that must not be the limit.
constexpr uint64_t kNoLimit = uint64_t{1} << 50;

double JobRate(std::span<const Traffic> traffic) {
  double sum = 0;
  for (const Traffic& one : traffic) sum += one.rate;
  return sum;
}

}  // namespace

void PlacementKeeper::Forget() {
  rates_.assign(hosts_.size(), 0);
  at_limit_.assign(hosts_.size(), false);
  guesses_.assign(hosts_.size(), {});
  tried_.clear();
  known_.clear();
  agree_ = 0;
  moves_left_ = kMovesMax;
  periods_ = 0;
  trial_.Forget();
}

void PlacementKeeper::Begin(std::vector<Host> hosts, std::vector<double> shares) {
  const bool same = hosts == hosts_;
  hosts_ = std::move(hosts);
  shares_ = std::move(shares);
  if (rates_.size() != hosts_.size()) Forget();
  // If the members of the job have changed, the pace says nothing about a move.
  if (!std::exchange(moving_, false) || !same) trial_.Forget();
  agree_ = 0;
  measurements_.clear();
  bursts_ = 0;
  bursts_of_period_ = 0;
  settling_ = true;
}

// Returns whether every server that has pieces answers. A server that does not has a backlog, like
// a slow one after pieces have moved away from it. Until the backlog is gone, the traffic does not
// show the shares in force.
bool PlacementKeeper::AllAnswer(std::span<const Traffic> traffic) const {
  for (size_t i = 0; i < hosts_.size(); ++i)
    if (hosts_[i].servers > 0 && shares_[i] > 0 && traffic[i].rate <= 0) return false;
  return true;
}

// Adds a measurement to the period. Returns true if the period is complete.
bool PlacementKeeper::Collect(std::span<const Traffic> traffic) {
  if (measurements_.size() == kMeasurementsOfPeriod) measurements_.clear();
  measurements_.emplace_back(traffic.begin(), traffic.end());
  return measurements_.size() == kMeasurementsOfPeriod;
}

std::vector<Traffic> PlacementKeeper::TrafficOfPeriod() const {
  std::vector<Traffic> of_period(hosts_.size());
  for (size_t i = 0; i < hosts_.size(); ++i) {
    auto second_best = [&](double Traffic::* number) {
      std::vector<double> all;
      for (const auto& measurement : measurements_) all.push_back(measurement[i].*number);
      std::ranges::nth_element(all, all.begin() + 1, std::greater());
      return all[1];
    };
    of_period[i] = {second_best(&Traffic::rate), second_best(&Traffic::busy)};
  }
  return of_period;
}

void PlacementKeeper::Learn(std::span<const Traffic> traffic) {
  double busiest = 0;
  for (const Traffic& one : traffic) busiest = std::max(busiest, one.busy);
  for (size_t i = 0; i < hosts_.size(); ++i) {
    const Traffic& one = traffic[i];
    if (hosts_[i].servers == 0 || hosts_[i].link != 0 || one.rate <= 0) continue;
    const double busy = busiest > 0 ? one.busy / busiest : 0;
    if (busy <= 0) {  // its servers have no pieces; its workers' bytes it does carry
      rates_[i] = std::max(rates_[i], one.rate);
      continue;
    }
    if (busy >= kAsBusy) {
      const bool known = at_limit_[i] && std::abs(one.rate / rates_[i] - 1) < kChange;
      // Pieces wait for pieces of the busiest link, which can keep all shards nearly busy. So only
      // the busiest link can show that it carries a little less than before.
      const bool less = one.rate < rates_[i] && one.busy < busiest;
      if (!known)
        rates_[i] = one.rate;
      else if (!less)
        rates_[i] += kRateSmoothing * (one.rate - rates_[i]);
      at_limit_[i] = true;
      guesses_[i] = {.busy_at_limit = guesses_[i].busy_at_limit};
    } else if (at_limit_[i] && one.rate <= kMore * rates_[i]) {
      GuessBeyondLimit(i, one.rate, busy);
    } else {
      GuessLimit(i, one.rate, busy);
    }
  }
}

// Idle time is only a hint: a link whose rate is regulated is idle between two bursts of packets,
// in one period and not in the next. So two periods in a row must show idle time. After a guess in
// vain the link must be more idle than it was at its limit.
void PlacementKeeper::GuessBeyondLimit(size_t host, double rate, double busy) {
  Guess& guess = guesses_[host];
  guess.busy_of_two = std::max(busy, std::exchange(guess.busy, busy));
  double part = guess.busy_of_two;
  if (guess.busy_at_limit < 1) part = part < kMoreIdle * guess.busy_at_limit ? kBusyMin : 1;
  guess.rate = rate / std::max(part, kBusyMin);
}

// Guesses the rate of a link that was not seen at its limit. The link was busy for no longer than
// its shards, and for less if pieces wait for each other.
void PlacementKeeper::GuessLimit(size_t host, double rate, double busy) {
  at_limit_[host] = false;
  const double part = std::max(busy, kBusyMin);
  const double limit = FastestLimit();
  double carries = rate / (part * part);
  // If the link seems to carry less than others do, it need not be faster than they are.
  if (rate / part < limit) carries = std::min(carries, limit);
  const double step = rates_[host] > 0 ? kRateSmoothing : 1;
  rates_[host] += step * std::max(0.0, carries - rates_[host]);
}

// Learns from a trial in vain. A link that was tried carries no more although it was so idle, so
// only a link that becomes more idle may be faster. If the trial showed a limit that was not known
// before, the next move will be another one and need not wait. Limits that were known before hold,
// because a link that gets too much right after a move carries less than it can.
void PlacementKeeper::LearnFromTrialInVain() {
  for (size_t i = 0; i < tried_.size(); ++i) {
    double& busy = guesses_[i].busy_at_limit;
    if (tried_[i].rate > 0) busy = std::min(busy, tried_[i].busy_of_two);
  }
  for (size_t i = 0; i < known_.size(); ++i) {
    if (!at_limit_[i]) continue;
    if (known_[i] == 0) trial_.EndWait();
    rates_[i] = std::max(rates_[i], known_[i]);
  }
}

// Returns the highest rate of the links that were seen at their limits; 0: none was.
double PlacementKeeper::FastestLimit() const {
  double fastest = 0;
  for (size_t i = 0; i < rates_.size(); ++i) {
    if (at_limit_[i]) fastest = std::max(fastest, rates_[i]);
  }
  return fastest;
}

std::vector<Host> PlacementKeeper::HostsAsKnown(bool guess) const {
  double fastest = *std::ranges::max_element(rates_);
  std::vector<Host> hosts = hosts_;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (hosts[i].link != 0) continue;
    double rate = at_limit_[i] ? rates_[i] : fastest;
    if (guess) rate = std::max(rate, guesses_[i].rate);
    hosts[i].link = hosts[i].servers == 0 ? kNoLimit : static_cast<uint64_t>(std::max(rate, 1.0));
  }
  return hosts;
}

std::optional<Shares> PlacementKeeper::Observe(std::span<const Traffic> traffic, double in_bursts) {
  bursts_of_period_ = std::max(bursts_of_period_, in_bursts);
  if (JobRate(traffic) <= 0 || !AllAnswer(traffic)) return std::nullopt;
  // Skips the first measurement after a move, because workers send the moving pieces again.
  if (std::exchange(settling_, false)) return std::nullopt;
  if (!Collect(traffic)) return std::nullopt;
  Learn(TrafficOfPeriod());
  if (moves_left_ == kMovesMax) periods_ = 0;
  if (++periods_ > kPeriodsPerMove) {
    ++moves_left_;
    periods_ = 0;
  }
  const Pace pace = PaceOfPeriod();
  std::optional<std::vector<double>> back = trial_.Observe(pace);
  moves_back_ = moving_ = back.has_value();
  if (moves_back_) {
    LearnFromTrialInVain();
    return SharesOf(hosts_, std::move(back).value());
  }
  if (!trial_.waits()) {
    for (Guess& guess : guesses_) guess.busy_at_limit = 1;
  }
  return trial_.MayMove() ? Improve(pace) : std::nullopt;
}

// Averages over all measurements, because with one slow link a round begins fast and ends slowly.
Pace PlacementKeeper::PaceOfPeriod() {
  double sum = 0;
  for (const auto& measurement : measurements_) sum += JobRate(measurement);
  if (bursts_of_period_ > 0) bursts_ = bursts_of_period_;
  return {sum / kMeasurementsOfPeriod / LoadPerByte(hosts_, shares_),
          std::exchange(bursts_of_period_, 0)};
}

// Returns the best shares for links as these, and sets `gain_` to their gain.
std::optional<Shares> PlacementKeeper::BestFor(const std::vector<Host>& hosts) {
  Result<Shares> best = ComputeShares(hosts);
  if (!best.ok() || best->time_per_byte <= 0) return std::nullopt;
  gain_ = TimePerByte(hosts, shares_) / TimePerByte(hosts, best->host_share);
  return std::move(best).value();
}

std::optional<Shares> PlacementKeeper::Improve(const Pace& pace) {
  if (*std::ranges::max_element(rates_) <= 0) return std::nullopt;
  std::optional<Shares> best = BestFor(HostsAsKnown(false));
  // If the placement is right for the known rates, a guess may be tried.
  const bool guess = best.has_value() && gain_ < kGainMin;
  if (guess) best = BestFor(HostsAsKnown(true));
  if (!best.has_value() || gain_ < kGainMin) {
    agree_ = 0;
    return std::nullopt;
  }
  if (agree_ == 0) pace_ = {};
  pace_.full = std::max(pace_.full, pace.full);
  pace_.bursts = std::max(pace_.bursts, bursts_);
  ++agree_;
  const bool sure = gain_ > kMuch || (!tried_.empty() && trial_.has_paid());
  const uint32_t agree = sure ? 1 : bursts_ > 0 ? kAgree : kPeriodsWithoutBursts;
  if (agree_ < agree || moves_left_ == 0) return std::nullopt;
  agree_ = 0;
  --moves_left_;
  trial_.Begin(shares_, pace_, gain_, !guess);
  tried_ = guess ? guesses_ : std::vector<Guess>();
  known_.assign(hosts_.size(), 0);
  for (size_t i = 0; i < hosts_.size(); ++i) {
    if (at_limit_[i]) known_[i] = rates_[i];
  }
  moving_ = true;
  return best;
}

}  // namespace byteps::plan
