#include "src/wire/view.h"

#include <algorithm>
#include <utility>

namespace byteps::wire {
namespace {

bool BySlotAndRank(const WorkerInfo& a, const WorkerInfo& b) {
  return a.slot != b.slot ? a.slot < b.slot : a.rank < b.rank;
}

}  // namespace

std::vector<WorkerInfo> WorkersOfGeneration(const View& view) {
  std::vector<WorkerInfo> workers = view.workers;
  workers.insert(workers.end(), view.gone.begin(), view.gone.end());
  std::sort(workers.begin(), workers.end(), BySlotAndRank);
  return workers;
}

std::vector<Contributor> ContributorsOf(const View& view) { return ContributorsOf(view.workers); }

std::vector<Contributor> ContributorsOf(std::vector<WorkerInfo> workers) {
  std::sort(workers.begin(), workers.end(), BySlotAndRank);
  std::vector<Contributor> contributors;
  for (WorkerInfo& one : workers) {
    bool fresh = contributors.empty() || contributors.back().slot != one.slot;
    if (fresh) contributors.push_back({one.slot, {}});
    contributors.back().processes.push_back(std::move(one));
  }
  return contributors;
}

}  // namespace byteps::wire
