#include "src/kernels/sum_tree.h"

#include <bit>

#include "src/base/sum_place.h"

namespace byteps::kernels {
namespace {

// The nodes that are complete and wait for their right sides.
class Waiting {
 public:
  explicit Waiting(SumTree::Step* steps) : steps_(steps) {}

  void AddLeaf(uint32_t level) {
    nodes_[count_++] = {level, 1};
    steps_[step_count_++] = {1, 0};
  }

  // Returns whether the last node is the right side of one that is not above `level`.
  bool EndsBelow(uint32_t level) const { return count_ > 1 && nodes_[count_ - 1].level <= level; }

  // Makes one node of the last two.
  void Merge() {
    const Node right = nodes_[--count_];
    Node& left = nodes_[count_ - 1];
    if (left.leaves != 0 && left.leaves == right.leaves && left.leaves < SumTree::kLeavesMax) {
      left.leaves = static_cast<uint8_t>(2 * left.leaves);
      steps_[--step_count_ - 1].leaves = left.leaves;
    } else {
      left.leaves = 0;
      ++steps_[step_count_ - 1].merges;
    }
  }

  size_t step_count() const { return step_count_; }

 private:
  struct Node {
    uint32_t level;  // of the node above this one and the one before it
    uint8_t leaves;  // of the step that makes this node; 0: several steps make it
  };
  SumTree::Step* const steps_;
  size_t step_count_ = 0;
  // The levels descend from the second one on, so there are few nodes.
  std::array<Node, SumTree::kWaitingMax + 1> nodes_;
  size_t count_ = 0;
};

}  // namespace

void SumTree::Plan(std::span<const uint32_t> places, Nodes nodes) {
  nodes_ = nodes;
  inputs_ = places.size();
  is_row_ = true;
  if (inputs_ > few_.size() && many_.size() < inputs_) many_.resize(inputs_);
  Waiting waiting(inputs_ <= few_.size() ? few_.data() : many_.data());
  for (size_t i = 0; i < inputs_; ++i) {
    const uint32_t level = i == 0 ? 0 : LevelOf(places[i - 1], places[i]);
    size_t merges = 0;
    for (; i > 0 && waiting.EndsBelow(level); ++merges) waiting.Merge();
    const bool as_in_row = i == 0 || merges == static_cast<size_t>(std::countr_zero(i));
    is_row_ = is_row_ && as_in_row;
    waiting.AddLeaf(level);
  }
  while (waiting.EndsBelow(UINT32_MAX)) waiting.Merge();
  step_count_ = waiting.step_count();
}

}  // namespace byteps::kernels
