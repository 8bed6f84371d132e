// The order in which a sum or a product of floats takes its inputs: a binary tree over their
// places (src/base/sum_place.h). A node with inputs below both children is left plus right; a node
// with inputs below one child is that child as it is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace byteps::kernels {

// The type of the sums and products below the root, of float16 and bfloat16. Other types have nodes
// of their own type.
enum class Nodes : uint8_t { kFloat32, kOwn };

// Returns the nodes of a job. `same_bits`: what a contributor rounds is a node, and so a sum has
// the same bits wherever its ranks run.
constexpr Nodes NodesFor(bool same_bits) { return same_bits ? Nodes::kOwn : Nodes::kFloat32; }

// A value of one thread at a time. Up to 64 inputs need no allocation; for more it keeps its memory
// from one plan to the next.
class SumTree {
 public:
  // Takes the next `leaves` inputs, 1, 2, 4 or 8 of them, as one full tree. Then the result becomes
  // the right side of so many nodes, one after the other: the left sides are the latest results
  // that no node has taken yet.
  struct Step {
    uint8_t leaves = 1;
    uint8_t merges = 0;
    friend bool operator==(const Step&, const Step&) = default;
  };
  static constexpr size_t kLeavesMax = 8;
  // The most results that wait for their right sides, whatever the places are: each one waits for
  // a node of another height.
  static constexpr size_t kWaitingMax = 33;

  SumTree() = default;
  explicit SumTree(std::span<const uint32_t> places, Nodes nodes = Nodes::kFloat32) {
    Plan(places, nodes);
  }
  SumTree(const SumTree&) = delete;
  SumTree& operator=(const SumTree&) = delete;

  // Makes the tree of these places; the first input has the first one, and so on. The places
  // ascend; others give some tree over the inputs, too.
  void Plan(std::span<const uint32_t> places, Nodes nodes = Nodes::kFloat32);

  Nodes nodes() const { return nodes_; }
  size_t inputs() const { return inputs_; }
  std::span<const Step> steps() const {
    return {inputs_ <= few_.size() ? few_.data() : many_.data(), step_count_};
  }
  // Returns whether the tree has the shape of the places 0, 1, 2 and so on.
  bool IsRow() const { return is_row_; }

 private:
  size_t inputs_ = 0;
  size_t step_count_ = 0;
  bool is_row_ = true;
  Nodes nodes_ = Nodes::kFloat32;
  std::array<Step, 64> few_;
  std::vector<Step> many_;  // in place of `few_` if there are more inputs
};

}  // namespace byteps::kernels
