// What names stand for on this rank. A name has a course for each process set that uses it: uses
// are counted there, and fail there together. A course has a tensor for each spec.
//
// The structs are values that the front works on; Names owns them and knows how they hang together.
// One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/protocol/worker/front/task.h"
#include "src/wire/control.h"

namespace byteps::protocol {

struct Name;
struct Tensor;

// A name in one process set. `number` and `attempt`: wire::Use has them.
struct Course {
  Course(Name& owner, uint32_t set) : name(owner), process_set(set) {}
  Name& name;
  uint32_t process_set;
  uint32_t number = 0;
  uint32_t attempt = 0;
  uint64_t round = 0;  // of the last operation of whatever tensor
  std::map<wire::TensorSpec, std::unique_ptr<Tensor>> tensors;
  // The operation that begins this round fails: the ranks disagree.
  std::optional<wire::DeclareFailed> failing;

  wire::Use UseIn(uint64_t in_round) const { return {process_set, attempt, in_round, number}; }
  // Whether this round of the course comes before the use, which another rank has told of. A rank
  // that has not heard the number of its course yet is in that of the others.
  bool IsBefore(uint64_t of_round, const wire::Use& use) const {
    wire::Use own = UseIn(of_round);
    if (number == 0) own.course = use.course;
    return own < use;
  }
};

// A name with one spec.
struct Tensor {
  Tensor(Course& owner, const wire::TensorSpec& what);
  Course& course;
  const std::string& name;
  const wire::TensorSpec& spec;
  bool declared = false;
  bool let_go = false;    // and the coordinator was told that this rank does not use it any more
  uint64_t last_use = 0;  // IdleTensors::Begin
  TensorId id = 0;
  uint64_t round = 0;               // of the current or last operation
  std::vector<uint64_t> placement;  // the dealer's state at declaration
  Deal deal;                        // where its pieces live
  std::unique_ptr<Task> task;

  // What the lanes are told of the exchange in whose stage the task is.
  // REQUIRES: it has a task, whose round has begun and whose pieces are cut.
  Exchange MakeExchange() const;
};

struct Name {
  std::string text;
  uint32_t order = 0;  // of declaration on this rank
  std::map<uint32_t, Course> courses;
  Tensor* open = nullptr;  // the one that has a task
};

class Names {
 public:
  // Whole or not at all, should memory not suffice; so is TensorOf.
  Name& NameOf(const std::string& text);
  static Course& CourseOf(Name& name, uint32_t process_set);
  static Tensor& TensorOf(Course& course, const wire::TensorSpec& spec);
  // Null: nothing of it is known.
  Name* Find(const std::string& text) const;
  Name* ByOrder(uint32_t order) const;
  const Course* FindCourse(const wire::NamedUse& use) const;

  // A generation begins: nothing is declared any more; names keep their order.
  void Clear();
  void SetDeclared(Tensor& tensor, const wire::Declared& declared);
  // All ranks have let go of it: it stands for nothing. REQUIRES: it is declared.
  void Forget(Tensor& tensor);
  // The same of all tensors of the course. What is open goes on as the first use of the name.
  void Forget(Course& course);
  // The name, if it has no course.
  void Erase(Name& name);
  Tensor* ById(TensorId id) const;
  // The next attempt begins: with no tensor but the one that is open, and that is not declared.
  // Returns what was declared.
  std::vector<TensorId> Undeclare(Course& course);

  // In the order of declaration.
  const std::vector<Name*>& in_order() const { return by_order_; }
  template <typename Visit>
  void ForEachTensor(Visit visit) const {
    for (Name* name : by_order_) {
      for (auto& [number, course] : name->courses) {
        for (auto& [spec, tensor] : course.tensors) visit(*tensor);
      }
    }
  }

 private:
  std::unordered_map<std::string, std::unique_ptr<Name>> names_;
  std::vector<Name*> by_order_;
  uint32_t next_order_ = 0;
  std::unordered_map<TensorId, Tensor*> by_id_;  // those that are declared
};

}  // namespace byteps::protocol
