// The declarations of a coordinator, and their answers to the words of ranks.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/protocol/control/names/declarations.h"

namespace byteps::protocol {

class DeclarationsTest : public testing::Test {
 protected:
  DeclarationsTest() { Begin(names); }

  static void Begin(Declarations& names) {
    std::vector<uint32_t> weights = {1, 1};
    names.Begin(plan::PieceAssigner::Create(weights, 4096).value(), 4, 4096);
  }

  static Declarations::Rank Rank(uint32_t number) { return {100 + number, number}; }
  static wire::TensorSpec Spec(int64_t elements, uint32_t process_set = 0) {
    return {wire::Op::kSum, DataType::kFloat32, 0, {elements}, false, wire::Op::kSum, process_set};
  }

  // Returns the answer to each worker: "T<number>", or "failed". Keeps texts, and answers to
  // servers.
  std::map<uint32_t, std::string> Note(const Declarations::Answers& answers) {
    std::map<uint32_t, std::string> said;
    for (const Declarations::Answer& answer : answers) {
      const auto* failed = std::get_if<wire::DeclareFailed>(&answer.message);
      if (failed != nullptr) failures.push_back(*failed);
      if (answer.to == Declarations::kServers) {
        if (failed != nullptr) retired.insert(failed->tensors.begin(), failed->tensors.end());
        const auto* over = std::get_if<wire::Forgotten>(&answer.message);
        if (over != nullptr) forgotten.insert(over->tensors.begin(), over->tensors.end());
        continue;
      }
      auto rank = static_cast<uint32_t>(answer.to - 100);
      if (failed != nullptr) said[rank] = "failed";
      if (std::holds_alternative<wire::Unbegun>(answer.message)) said[rank] = "asked";
      const auto* declared = std::get_if<wire::Declared>(&answer.message);
      if (declared != nullptr) {
        said[rank] = "T" + std::to_string(declared->tensor);
        lifetimes[{declared->name, declared->process_set}] = declared->lifetime;
      }
      const auto* over = std::get_if<wire::Forgotten>(&answer.message);
      if (over != nullptr) said[rank] = InWords(*over);
    }
    return said;
  }

  // Returns for example "without T1 lifetime 2 of x".
  static std::string InWords(const wire::Forgotten& over) {
    std::string text = "without";
    for (TensorId tensor : over.tensors) text += " T" + std::to_string(tensor);
    for (const wire::LifetimeNumber& one : over.lifetimes) {
      text += " lifetime " + std::to_string(one.number) + " of " + one.name;
    }
    return text;
  }

  // Declares as a rank that knows nothing of the name, or only this lifetime of it.
  std::map<uint32_t, std::string> Declare(uint32_t rank, uint64_t round,
                                          const wire::TensorSpec& spec, uint32_t attempt = 0,
                                          uint32_t lifetime = 0) {
    return Note(names.OnDeclare(Rank(rank), {"x", attempt, spec, round, lifetime}));
  }
  std::map<uint32_t, std::string> LetGo(uint32_t rank, const std::vector<TensorId>& tensors) {
    return Note(names.OnLetGo(Rank(rank), {tensors}));
  }
  // Returns the use in the lifetime that the name has.
  wire::Use Now(const std::string& name, wire::Use use) {
    use.lifetime = lifetimes[{name, use.process_set}];
    return use;
  }

  std::map<uint32_t, std::string> Overdue(uint32_t rank, const wire::Use& use, TensorId tensor,
                                          const std::vector<uint32_t>& ranks = {},
                                          const std::vector<wire::Use>& elsewhere = {}) {
    wire::Overdue overdue{{{"x", Now("x", use), tensor, {}}}, {}};
    for (const wire::Use& one : elsewhere) overdue.uses[0].elsewhere.push_back(Now("x", one));
    if (!ranks.empty()) overdue.process_sets.push_back({use.process_set, ranks});
    return Note(names.OnOverdue(Rank(rank), overdue));
  }

  // Rank 0 is stuck in "x" as T1, rank 1 in "y" as T2. Both have said what they want.
  void DeclareTwo() {
    Declare(0, 1, Spec(3));
    Note(names.OnDeclare(Rank(1), {"y", 0, Spec(4), 1}));
  }
  std::map<uint32_t, std::string> Stuck(uint32_t rank, const wire::NamedUse& use, TensorId tensor) {
    return Note(names.OnOverdue(Rank(rank), {{{use.name, use.use, tensor, {}, true}}, {}}));
  }
  std::map<uint32_t, std::string> Lacks(uint32_t rank, const wire::NamedUse& in,
                                        const wire::NamedUse& what) {
    static_cast<void>(names.OnUnbegun(Rank(rank), {in, {what}}));
    return Note(names.JudgeStuck());
  }
  const wire::NamedUse in_x{"x", {0, 0, 1, 1}};
  const wire::NamedUse in_y{"y", {0, 0, 1, 2}};

  using Said = std::map<uint32_t, std::string>;
  Declarations names;
  std::vector<wire::DeclareFailed> failures;
  std::set<TensorId> retired;
  std::set<TensorId> forgotten;
  std::map<std::pair<std::string, uint32_t>, uint32_t> lifetimes;  // by name and process set
};

}  // namespace byteps::protocol
