#include "src/protocol/control/views/sum_order.h"

#include <utility>

namespace byteps::protocol {

plan::SumReport DescribeSums(const wire::View& view) {
  std::vector<plan::Summands> contributors;
  for (const wire::Contributor& one : wire::ContributorsOf(wire::WorkersOfGeneration(view))) {
    plan::Summands& ranks = contributors.emplace_back();
    for (const wire::WorkerInfo& worker : one.processes) ranks.push_back(worker.rank);
  }
  return plan::DescribeSums(contributors, SumRulesOf(view));
}

Status CheckSums(const wire::View& view) {
  if (!view.same_bits) return Status::Ok();
  const plan::SumReport report = DescribeSums(view);
  if (report.bits == plan::SumBits::kOnNothingElse) return Status::Ok();
  return {StatusCode::kRefused, plan::RefusalOf(report)};
}

}  // namespace byteps::protocol
