// One attempt at a name in one process set: the specs under which its ranks use the name, and the
// spec that they mean in the latest round. An attempt fails as a whole, once.
//
// A value without I/O.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "src/base/slot_set.h"
#include "src/base/types.h"
#include "src/wire/names.h"
#include "src/wire/tensor_spec.h"

namespace byteps::protocol {

class Attempt {
 public:
  // A name with one spec.
  struct Variant {
    TensorId tensor = UINT32_MAX;
    std::vector<uint64_t> placement;
    RankSet holders = {};  // ranks that hold it: they were told of it and have not let go of it
  };
  using Variants = std::map<wire::TensorSpec, Variant>;
  using Entry = Variants::value_type;

  const Variants& variants() const { return variants_; }
  // Null: no rank has used this spec or tensor.
  const Entry* Find(const wire::TensorSpec& spec) const;
  const Entry* Find(TensorId tensor) const;
  // Returns the entry of this spec. If there is none, adds one with `variant`.
  const Entry& Add(const wire::TensorSpec& spec, const Variant& variant);
  // Notes that a rank has been told of this tensor, or has let go of it. REQUIRES: the attempt has
  // the tensor.
  void Hold(TensorId tensor, uint32_t rank);
  void LetGo(TensorId tensor, uint32_t rank);
  // Notes that these ranks hold nothing any more.
  void LetGoOfAll(const std::vector<uint32_t>& ranks);
  void Erase(TensorId tensor);

  // Returns whether a rank has said for this round that it means another entry than `entry` (null:
  // a new spec). Only the latest round of which a rank has spoken matters.
  bool Contradicts(uint64_t round, const Entry* entry) const;
  // The entry that was meant, and the rank that meant it. REQUIRES: Contradicts.
  const Entry& meant() const { return *meant_; }
  uint32_t meant_by() const { return by_; }
  // Notes that `rank`, the worker with this incarnation, means `entry` of this attempt in `round`.
  // REQUIRES: not Contradicts.
  void Mean(uint64_t round, const Entry& entry, uint32_t rank, uint64_t worker);
  // Forgets what workers meant for which `gone` is true, by incarnation: it contradicts nobody any
  // more. If another rank meant the same, this rank says so again when its operation does not end.
  void ForgetMeaningIf(const std::function<bool(uint64_t)>& gone);

  // Fails the attempt, and adds its tensors to the message. REQUIRES: it has not failed.
  const wire::DeclareFailed& Fail(wire::DeclareFailed failed);
  const std::optional<wire::DeclareFailed>& failed() const { return failed_; }
  // Adds a tensor of a failure whose spec is not known here.
  void Retire(TensorId tensor);

  // The workers that were told of one of its tensors, by incarnation. They have to hear of a
  // failure.
  void Tell(uint64_t worker) { told_.insert(worker); }
  const std::set<uint64_t>& told() const { return told_; }

 private:
  Variants variants_;
  std::unordered_map<TensorId, Entry*> by_tensor_;
  uint64_t round_ = 0;  // the latest round of which a rank has said what it means; 0: none
  const Entry* meant_ = nullptr;
  uint32_t by_ = 0;
  uint64_t worker_ = 0;
  std::optional<wire::DeclareFailed> failed_;
  std::vector<TensorId> retired_;
  std::set<uint64_t> told_;
};

}  // namespace byteps::protocol
