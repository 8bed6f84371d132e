// The names of this rank, and what they stand for. A name has a lifetime for each process set that
// uses it. The uses of a lifetime are counted together, and fail together. A lifetime has a tensor
// for each spec.
//
// The structs are values that the front works on. Names owns them and knows how they refer to each
// other. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/protocol/worker/front/task.h"
#include "src/wire/names.h"
#include "src/wire/tensor_spec.h"

namespace byteps::protocol {

struct Name;
struct Tensor;

// A name in one process set. wire::Use explains `number` and `attempt`.
struct Lifetime {
  Lifetime(Name& owner, uint32_t set) : name(owner), process_set(set) {}
  Name& name;
  uint32_t process_set;
  uint32_t number = 0;
  uint32_t attempt = 0;
  uint64_t round = 0;  // round of the lifetime's last operation, on any of its tensors
  std::map<wire::TensorSpec, std::unique_ptr<Tensor>> tensors;
  // The failure of the operation that begins this round, because the ranks disagree.
  std::optional<wire::DeclareFailed> failing;

  wire::Use UseIn(uint64_t in_round) const { return {process_set, attempt, in_round, number}; }
  // Returns whether this round of the lifetime comes before `use`, which another rank has told of.
  // A rank that has not heard the number of its lifetime yet is in the same lifetime as the others.
  bool IsBefore(uint64_t of_round, const wire::Use& use) const {
    wire::Use own = UseIn(of_round);
    if (number == 0) own.lifetime = use.lifetime;
    return own < use;
  }
};

// A name with one spec.
struct Tensor {
  Tensor(Lifetime& owner, const wire::TensorSpec& what);
  Lifetime& lifetime;
  const std::string& name;
  const wire::TensorSpec& spec;
  bool declared = false;
  bool let_go = false;    // this rank does not use it any more, and told the coordinator so
  uint64_t last_use = 0;  // number from IdleTensors::Begin
  TensorId id = 0;
  uint64_t round = 0;               // round of the current or last operation
  std::vector<uint64_t> placement;  // state of the dealer at the declaration
  Deal deal;                        // places of its pieces
  std::unique_ptr<Task> task;

  // Returns what the lanes are told of the exchange whose stage the task is in. REQUIRES: the
  // tensor has a task, whose round has begun and whose pieces are cut.
  Exchange MakeExchange() const;
};

struct Name {
  std::string text;
  uint32_t order = 0;  // order of declaration on this rank
  std::map<uint32_t, Lifetime> lifetimes;
  Tensor* open = nullptr;  // the tensor that has a task
};

class Names {
 public:
  // NameOf and TensorOf: if memory does not suffice, they throw and change nothing.
  Name& NameOf(const std::string& text);
  static Lifetime& LifetimeOf(Name& name, uint32_t process_set);
  static Tensor& TensorOf(Lifetime& lifetime, const wire::TensorSpec& spec);
  // Find, ByOrder and FindLifetime return null if there is no such name or lifetime.
  Name* Find(const std::string& text) const;
  Name* ByOrder(uint32_t order) const;
  const Lifetime* FindLifetime(const wire::NamedUse& use) const;

  // Forgets all declarations, because a generation begins. Names keep their order.
  void Clear();
  void SetDeclared(Tensor& tensor, const wire::Declared& declared);
  // Forgets the tensor's declaration, because all ranks have let go of it. REQUIRES: the tensor is
  // declared.
  void Forget(Tensor& tensor);
  // Forgets all tensors of the lifetime. An open operation goes on as the first use of the name.
  void Forget(Lifetime& lifetime);
  // Erases the name, unless it has a lifetime or an open operation.
  void Erase(Name& name);
  Tensor* ById(TensorId id) const;
  // Begins the next attempt of the lifetime. It keeps only the open tensor, and that tensor is not
  // declared any more. Returns the ids of the tensors that were declared.
  std::vector<TensorId> Undeclare(Lifetime& lifetime);

  // Returns the names in the order of declaration.
  const std::vector<Name*>& in_order() const { return by_order_; }
  template <typename Visit>
  void ForEachTensor(Visit visit) const {
    for (Name* name : by_order_) {
      for (auto& [number, lifetime] : name->lifetimes) {
        for (auto& [spec, tensor] : lifetime.tensors) visit(*tensor);
      }
    }
  }

 private:
  std::unordered_map<std::string, std::unique_ptr<Name>> names_;
  std::vector<Name*> by_order_;
  uint32_t next_order_ = 0;
  std::unordered_map<TensorId, Tensor*> by_id_;  // the tensors that are declared
};

}  // namespace byteps::protocol
