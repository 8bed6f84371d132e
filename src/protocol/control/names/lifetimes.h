// The names that the coordinator knows: a lifetime for each name and process set that uses it, with
// its attempts. A lifetime is also found by the number of a tensor. It stays at its place in memory
// until it is erased.
//
// A value without I/O.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/protocol/control/names/attempt.h"
#include "src/wire/names.h"
#include "src/wire/tensor_spec.h"

namespace byteps::protocol {

struct NameLifetime {
  const std::string& name;
  const uint32_t process_set;
  const uint32_t number;
  std::deque<Attempt> attempts = {};  // attempts 0, 1, ...

  // Returns whether all attempts but the last have failed, and the last one has no tensor left.
  bool IsOver() const;
};

class Lifetimes {
 public:
  // The place of a tensor: its lifetime, and the number of its attempt.
  struct Place {
    NameLifetime* lifetime = nullptr;
    uint32_t attempt = 0;
  };

  void Clear();

  // Null: nobody uses the name in this process set.
  NameLifetime* Find(const std::string& name, uint32_t process_set);
  bool Knows(const std::string& name) const { return names_.contains(name); }
  // Null: there is no such lifetime, or it has no such attempt.
  Attempt* FindAttempt(const std::string& name, const wire::Use& use);
  // Null: no lifetime has this tensor.
  const Place* Find(TensorId tensor) const;
  size_t tensor_count() const { return tensors_.size(); }

  // Begins the lifetime of a name. REQUIRES: the name has none in this process set.
  NameLifetime& Begin(const std::string& name, uint32_t process_set, uint32_t number);
  // Returns this attempt. If the lifetime does not have it yet, adds all attempts up to this one.
  static Attempt& At(NameLifetime& lifetime, uint32_t attempt);
  // Does the same as Attempt::Add, and finds the tensor by its number from now on.
  const Attempt::Entry& Add(NameLifetime& lifetime, uint32_t attempt, const wire::TensorSpec& spec,
                            const Attempt::Variant& variant);
  void EraseTensor(TensorId tensor);
  // A lifetime that is over: the workers that were told of its tensors, and all its tensors,
  // including those of failed attempts.
  struct Over {
    std::set<uint64_t> told;
    std::vector<TensorId> tensors;
  };
  Over Erase(const NameLifetime& lifetime);

  // Returns the tensors that no rank holds, without those of failed attempts.
  std::vector<TensorId> Unheld() const;

  template <typename Visit>
  void ForEach(Visit&& visit) {
    for (auto& [text, lifetimes] : names_) {
      for (auto& [process_set, lifetime] : lifetimes) visit(lifetime);
    }
  }
  template <typename Visit>
  void ForEach(Visit&& visit) const {
    for (const auto& [text, lifetimes] : names_) {
      for (const auto& [process_set, lifetime] : lifetimes) visit(lifetime);
    }
  }

 private:
  std::unordered_map<std::string, std::map<uint32_t, NameLifetime>> names_;  // by process set
  std::unordered_map<TensorId, Place> tensors_;
};

}  // namespace byteps::protocol
