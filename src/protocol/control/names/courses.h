// What the coordinator knows of names: a course for each name and process set that uses it, with
// its attempts. A tensor is found by its number, too. A course stays where it is until it is
// erased.
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
#include "src/wire/control.h"

namespace byteps::protocol {

struct NameCourse {
  const std::string& name;
  const uint32_t process_set;
  const uint32_t number;
  std::deque<Attempt> attempts = {};  // attempt 0, 1, ...

  // Attempts that have failed have others behind them, and the last one has no tensor left.
  bool IsOver() const;
};

class Courses {
 public:
  // A tensor of a course, in the attempt with this number.
  struct Place {
    NameCourse* course = nullptr;
    uint32_t attempt = 0;
  };

  void Clear();

  // Null: nobody uses the name in this process set.
  NameCourse* Find(const std::string& name, uint32_t process_set);
  bool Knows(const std::string& name) const { return names_.contains(name); }
  // Null: there is no such course, or no such attempt of it.
  Attempt* FindAttempt(const std::string& name, const wire::Use& use);
  // Null: no course has this tensor.
  const Place* Find(TensorId tensor) const;
  size_t tensor_count() const { return tensors_.size(); }

  // REQUIRES: the name has none in this process set.
  NameCourse& Begin(const std::string& name, uint32_t process_set, uint32_t number);
  // Attempts up to this one are there from now on.
  static Attempt& At(NameCourse& course, uint32_t attempt);
  // As Attempt::Add.
  const Attempt::Entry& Add(NameCourse& course, uint32_t attempt, const wire::TensorSpec& spec,
                            const Attempt::Variant& variant);
  void EraseTensor(TensorId tensor);
  // A course that is over: who was told of tensors of it, and all that it has, those of failed
  // attempts too.
  struct Over {
    std::set<uint64_t> told;
    std::vector<TensorId> tensors;
  };
  Over Erase(const NameCourse& course);

  // Tensors of attempts that have not failed which no rank holds.
  std::vector<TensorId> Unheld() const;

  template <typename Visit>
  void ForEach(Visit&& visit) {
    for (auto& [text, courses] : names_) {
      for (auto& [process_set, course] : courses) visit(course);
    }
  }
  template <typename Visit>
  void ForEach(Visit&& visit) const {
    for (const auto& [text, courses] : names_) {
      for (const auto& [process_set, course] : courses) visit(course);
    }
  }

 private:
  std::unordered_map<std::string, std::map<uint32_t, NameCourse>> names_;  // by process set
  std::unordered_map<TensorId, Place> tensors_;
};

}  // namespace byteps::protocol
