#include "src/plan/placement_keeper.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace byteps::plan {
namespace {

constexpr uint32_t kSamplesOfSeries = 4;
// A move must make a round this much faster, and so many series must agree about it. One series is
// enough for a gain that is too great for noise.
constexpr double kGainMin = 1.03;
constexpr double kGainGreat = 1.25;
constexpr uint32_t kAgree = 3;
constexpr uint32_t kMovesMax = 6;
constexpr uint32_t kSeriesPerMove = 40;
// As busy as the busiest, but for what measuring costs.
constexpr double kAsBusy = 0.98;
// Idle time beyond this says no more about how fast a link is.
constexpr double kBusyMin = 0.6;
// An estimate that is wrong by more than this is replaced.
constexpr double kChange = 0.2;
constexpr double kRateSmoothing = 0.5;
// The rate of a link that nothing is known about and that must not be the limit.
constexpr uint64_t kNoLimit = uint64_t{1} << 50;

}  // namespace

void PlacementKeeper::Forget() {
  rates_.assign(hosts_.size(), 0);
  at_limit_.assign(hosts_.size(), false);
  more_.assign(hosts_.size(), 0);
  agree_ = 0;
  moves_left_ = kMovesMax;
  series_ = 0;
  trial_.Forget();
}

void PlacementKeeper::Begin(std::vector<Host> hosts, std::vector<double> shares) {
  const bool same = hosts == hosts_;
  hosts_ = std::move(hosts);
  shares_ = std::move(shares);
  if (rates_.size() != hosts_.size()) Forget();
  // In a job of other members the pace says nothing about a move.
  if (!std::exchange(moving_, false) || !same) trial_.Forget();
  agree_ = 0;
  samples_ = 0;
  settling_ = true;
}

// A server that has pieces and answers none has a backlog, as a slow one has after pieces have
// moved away from it. Until it is gone the traffic is not that of the shares in force.
bool PlacementKeeper::AllAnswer(std::span<const Traffic> traffic) const {
  for (size_t i = 0; i < hosts_.size(); ++i)
    if (hosts_[i].servers > 0 && shares_[i] > 0 && traffic[i].rate <= 0) return false;
  return true;
}

// True when a series is complete.
bool PlacementKeeper::Collect(std::span<const Traffic> traffic, double job_rate) {
  if (samples_ == 0) sum_ = 0;
  sum_ += job_rate;
  if (samples_ == 0 || job_rate > fastest_) {
    fastest_ = job_rate;
    traffic_.assign(traffic.begin(), traffic.end());
  }
  if (++samples_ < kSamplesOfSeries) return false;
  samples_ = 0;
  return true;
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
      // Pieces wait for those of the busiest link, which can keep all shards as good as busy. So
      // only the busiest one says that it carries a little less than it did.
      const bool less = one.rate < rates_[i] && one.busy < busiest;
      if (!known)
        rates_[i] = one.rate;
      else if (!less)
        rates_[i] += kRateSmoothing * (one.rate - rates_[i]);
      at_limit_[i] = true;
      more_[i] = 0;
    } else {
      // Its link was busy for no longer than its shards were, and for less where pieces wait for
      // each other. Only where nothing better is known that is guessed.
      const double part = std::max(busy, kBusyMin);
      double least = one.rate / (at_limit_[i] ? part : part * part);
      // A limit that was seen is given up when two series say so.
      const double before = std::exchange(more_[i], least);
      if (at_limit_[i]) least = std::min(least, before);
      const double step = rates_[i] > 0 ? kRateSmoothing : 1;
      rates_[i] += step * std::max(0.0, least - rates_[i]);
    }
  }
}

std::vector<Host> PlacementKeeper::HostsAsKnown() const {
  double fastest = *std::ranges::max_element(rates_);
  std::vector<Host> hosts = hosts_;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (hosts[i].link != 0) continue;
    const double rate = at_limit_[i] ? rates_[i] : fastest;
    hosts[i].link = hosts[i].servers == 0 ? kNoLimit : static_cast<uint64_t>(std::max(rate, 1.0));
  }
  return hosts;
}

std::optional<Shares> PlacementKeeper::Observe(std::span<const Traffic> traffic) {
  double job_rate = 0;
  for (const Traffic& one : traffic) job_rate += one.rate;
  if (job_rate <= 0 || !AllAnswer(traffic)) return std::nullopt;
  // What is under way when pieces move is sent again.
  if (std::exchange(settling_, false)) return std::nullopt;
  if (!Collect(traffic, job_rate)) return std::nullopt;
  Learn(traffic_);
  if (moves_left_ == kMovesMax) series_ = 0;
  if (++series_ > kSeriesPerMove) {
    ++moves_left_;
    series_ = 0;
  }
  // Of the whole series: where one link is too slow, a round begins fast and ends slowly.
  const double pace = sum_ / kSamplesOfSeries / LoadPerByte(hosts_, shares_);
  std::optional<std::vector<double>> back = trial_.Observe(pace);
  moves_back_ = moving_ = back.has_value();
  if (moves_back_) return SharesOf(hosts_, std::move(back).value());
  return trial_.MayMove() ? Improve(pace) : std::nullopt;
}

std::optional<Shares> PlacementKeeper::Improve(double pace) {
  if (*std::ranges::max_element(rates_) <= 0) return std::nullopt;
  const std::vector<Host> hosts = HostsAsKnown();
  Result<Shares> best = ComputeShares(hosts);
  if (!best.ok() || best->time_per_byte <= 0) return std::nullopt;
  gain_ = TimePerByte(hosts, shares_) / TimePerByte(hosts, best->host_share);
  if (gain_ < kGainMin) {
    agree_ = 0;
    return std::nullopt;
  }
  pace_ = agree_ == 0 ? pace : std::max(pace_, pace);
  ++agree_;
  if (agree_ < (gain_ >= kGainGreat ? 1 : kAgree) || moves_left_ == 0) return std::nullopt;
  agree_ = 0;
  --moves_left_;
  trial_.Begin(shares_, pace_, gain_);
  moving_ = true;
  return std::move(best).value();
}

}  // namespace byteps::plan
