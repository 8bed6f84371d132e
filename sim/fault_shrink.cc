// Finds smaller scripts that still break a rule.
#include "sim/faults.h"

namespace byteps::sim {

FaultScript ShrinkFaults(FaultOptions options) {
  options.log = nullptr;
  FaultScript best = options.script.has_value() ? *options.script : WriteFaults(options.seed);
  // The violation must be of the same kind, because another kind is another mistake.
  auto kind = [](const std::string& text) {
    size_t begin = text.find_first_not_of("0123456789 ");
    return text.substr(begin, text.find(' ', begin) - begin);
  };
  options.script = best;
  std::string wanted = kind(RunFaults(options).violation.value_or("nothing"));
  auto still_fails = [&](const FaultScript& script) {
    options.script = script;
    std::optional<std::string> violation = RunFaults(options).violation;
    return violation.has_value() && kind(*violation) == wanted;
  };
  bool again = true;
  while (again) {
    again = false;
    std::vector<FaultScript> smaller;
    for (size_t i = 0; i < best.events.size(); ++i) {
      smaller.push_back(best);
      smaller.back().events.erase(smaller.back().events.begin() + static_cast<ptrdiff_t>(i));
    }
    // The first tensor stays if the ranks disagree, because they disagree about it.
    uint32_t first = best.disagreement.has_value() ? 1 : 0;
    for (uint32_t t = first; t < best.tensors.size() && best.tensors.size() > 1; ++t) {
      smaller.push_back(best);
      FaultScript& script = smaller.back();
      script.tensors.erase(script.tensors.begin() + t);
      for (auto& order : script.order) {
        std::erase(order, t);
        for (uint32_t& index : order) index -= index > t ? 1 : 0;
      }
    }
    if (best.disagreement.has_value()) {
      smaller.push_back(best);
      smaller.back().disagreement.reset();
    }
    if (best.rounds > 1) {
      smaller.push_back(best);
      --smaller.back().rounds;
    }
    for (size_t t = 0; t < best.tensors.size(); ++t) {
      if (best.tensors[t].elements < 2) continue;
      smaller.push_back(best);
      smaller.back().tensors[t].elements /= 2;
    }
    if (best.cluster.network.jitter_max > Duration::zero()) {
      smaller.push_back(best);
      smaller.back().cluster.network.jitter_max = Duration::zero();
    }
    for (const FaultScript& script : smaller) {
      if (!still_fails(script)) continue;
      best = script;
      again = true;
      break;
    }
  }
  return best;
}

}  // namespace byteps::sim
