#include "src/protocol/control/names/declarations.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "src/operations/row.h"

namespace byteps::protocol {
namespace {

// Returns one side of a disagreement, in words.
std::string Side(uint32_t rank, const wire::TensorSpec& spec) {
  return "rank " + std::to_string(rank) + " has " + operations::Describe(spec);
}

// Appends messages of bounded size.
void AppendInParts(Declarations::Answers& answers, uint64_t to, wire::Forgotten& all) {
  wire::Forgotten part{std::move(all.tensors), {}};
  size_t bytes = 0;
  for (wire::LifetimeNumber& lifetime : all.lifetimes) {
    if (bytes > wire::kControlPartBytes) {
      answers.push_back({to, std::exchange(part, {})});
      bytes = 0;
    }
    bytes += lifetime.name.size() + wire::kControlUseBytes;
    part.lifetimes.push_back(std::move(lifetime));
  }
  answers.push_back({to, std::move(part)});
}

void Append(Declarations::Answers& answers, Declarations::Answers more) {
  std::move(more.begin(), more.end(), std::back_inserter(answers));
}

}  // namespace

Declarations::Declarations(const CoordinatorRules& rules)
    : rules_(rules),
      circles_([this](const wire::NamedUse& use, TensorId tensor) { return What(use, tensor); }) {}

void Declarations::Begin(plan::PieceAssigner dealer, uint32_t ranks, uint32_t piece_bytes_max) {
  dealer_.Begin(std::move(dealer), ranks, piece_bytes_max);
  lifetimes_.Clear();
  incarnations_.clear();
  circles_.Clear();
}

void Declarations::Number(TensorId first, uint32_t count) {
  dealer_.Number(first, count);
  next_lifetime_ = first;
}

std::string Declarations::What(const wire::NamedUse& use, TensorId tensor) {
  const Attempt* attempt = lifetimes_.FindAttempt(use.name, use.use);
  const Attempt::Entry* entry = attempt == nullptr ? nullptr : attempt->Find(tensor);
  return entry == nullptr ? "" : operations::Describe(entry->first);
}

Declarations::Answers Declarations::OnDeclare(const Rank& rank, const wire::Declare& declare) {
  Note(rank);
  const uint32_t process_set = declare.spec.process_set;
  NameLifetime* known = lifetimes_.Find(declare.name, process_set);
  const bool is_over =
      declare.lifetime != 0 && (known == nullptr || known->number != declare.lifetime);
  if (is_over) {
    return {
        {rank.incarnation, wire::Forgotten{{}, {{declare.name, process_set, declare.lifetime}}}}};
  }
  // No correct worker skips an attempt.
  if (declare.attempt > (known == nullptr ? 0 : known->attempts.size())) return {};
  NameLifetime& lifetime =
      known == nullptr ? lifetimes_.Begin(declare.name, process_set, next_lifetime_++) : *known;
  Attempt& attempt = Lifetimes::At(lifetime, declare.attempt);
  wire::Use use{process_set, declare.attempt, declare.round, lifetime.number};
  if (attempt.failed().has_value()) return AnswerAfterFailure(lifetime, rank, declare);
  attempt.Tell(rank.incarnation);
  circles_.ForgetWait(rank.number, declare.name);  // the operation in which it waited has ended
  const Attempt::Entry* entry = attempt.Find(declare.spec);
  if (attempt.Contradicts(declare.round, entry)) {
    return Fail(Mismatch(declare.name, use, attempt, rank, declare.spec));
  }
  if (entry == nullptr) {
    Result<Attempt::Variant> dealt = Deal(attempt, declare.spec);
    if (!dealt.ok()) {
      std::string text = "tensor '" + declare.name + "': " + dealt.status().message();
      return Fail({declare.name, use, {}, dealt.status().code(), text, {}});
    }
    entry = &lifetimes_.Add(lifetime, declare.attempt, declare.spec, dealt.value());
  }
  attempt.Hold(entry->second.tensor, rank.number);
  attempt.Mean(declare.round, *entry, rank.number, rank.incarnation);
  return {{rank.incarnation, Word(declare, lifetime, *entry)}};
}

// A rank may be in an earlier round than the one that failed, because that round ended in an error
// for the others. Then the rank takes part in its round, so that all ranks count rounds alike. If
// it means there what no other rank has ever meant, the failure is a failure of its round.
Declarations::Answers Declarations::AnswerAfterFailure(NameLifetime& lifetime, const Rank& rank,
                                                       const wire::Declare& declare) {
  const Attempt& attempt = lifetime.attempts[declare.attempt];
  wire::DeclareFailed failed = *attempt.failed();
  if (declare.round >= failed.use.round) return {{rank.incarnation, failed}};
  if (const Attempt::Entry* entry = attempt.Find(declare.spec)) {
    return {{rank.incarnation, Word(declare, lifetime, *entry)}, {rank.incarnation, failed}};
  }
  failed.use.round = declare.round;
  return {{rank.incarnation, failed}};
}

wire::Declared Declarations::Word(const wire::Declare& declare, const NameLifetime& lifetime,
                                  const Attempt::Entry& entry) {
  return {declare.name,        declare.spec.process_set, declare.attempt,
          entry.second.tensor, entry.second.placement,   lifetime.number};
}

Result<Attempt::Variant> Declarations::Deal(const Attempt& attempt, const wire::TensorSpec& spec) {
  if (attempt.variants().size() < kVariantsMax) return dealer_.Deal(spec);
  return Status(
      StatusCode::kExhausted,
      "it has had " + std::to_string(kVariantsMax) +
          " shapes, types or operations; use several names, or the same shape again (pad it)");
}

wire::DeclareFailed Declarations::Mismatch(const std::string& name, const wire::Use& use,
                                           const Attempt& attempt, const Rank& rank,
                                           const wire::TensorSpec& spec) {
  std::string text = "ranks disagree about tensor '" + name + "': ";
  text += Side(attempt.meant_by(), attempt.meant().first) + ", " + Side(rank.number, spec) +
          "; use the same name, shape, dtype, operation and process set on every rank";
  return {name, use, {}, StatusCode::kMismatch, text, {}};
}

// Ranks that have not asked yet get the failure when they ask. Servers drop what they hold.
Declarations::Answers Declarations::Fail(wire::DeclareFailed failed) {
  Attempt& attempt = *lifetimes_.FindAttempt(failed.name, failed.use);
  const wire::DeclareFailed& told = attempt.Fail(std::move(failed));
  circles_.ForgetUses(told.name, told.use);
  Answers answers;
  if (!told.tensors.empty()) answers.push_back({kServers, told});
  for (uint64_t worker : attempt.told()) answers.push_back({worker, told});
  return answers;
}

// Fails all uses of the circle as one failure.
Declarations::Answers Declarations::FailAll(const WaitCircles::Mismatch& mismatch) {
  Answers answers;
  for (const wire::NamedUse& one : mismatch.uses) {
    wire::DeclareFailed failed{one.name, one.use, {}, mismatch.code, mismatch.text, mismatch.uses};
    std::erase(failed.also, one);
    Append(answers, Fail(std::move(failed)));
  }
  return answers;
}

Declarations::Answers Declarations::OnOverdue(const Rank& rank, const wire::Overdue& overdue) {
  std::map<uint32_t, std::shared_ptr<const std::vector<uint32_t>>> process_sets;
  process_sets[0] = nullptr;
  for (const wire::ProcessSetRanks& process_set : overdue.process_sets) {
    if (process_set.number == 0) continue;
    process_sets[process_set.number] =
        std::make_shared<const std::vector<uint32_t>>(process_set.ranks);
  }
  Answers answers;
  for (const wire::OverdueUse& use : overdue.uses) {
    if (!lifetimes_.Knows(use.name)) continue;
    circles_.Forget(rank.number, rank.incarnation, use.name, use.stuck);
    Answers more = CheckUse(rank, use);
    auto ranks = process_sets.find(use.use.process_set);
    const Attempt* attempt = lifetimes_.FindAttempt(use.name, use.use);
    bool waits = attempt != nullptr && !attempt->failed().has_value() &&
                 ranks != process_sets.end() && attempt->Find(use.tensor) != nullptr;
    if (waits) {
      std::optional<WaitCircles::Mismatch> circle =
          circles_.Add(rank.number, use.name,
                       {rank.incarnation, use.use, use.tensor, use.elsewhere, ranks->second});
      if (circle.has_value()) {
        more = FailAll(*circle);
      } else if (use.stuck) {
        more = AskAbout(rank, use.name);
      }
    }
    Append(answers, std::move(more));
  }
  return answers;
}

Declarations::Answers Declarations::CheckUse(const Rank& rank, const wire::OverdueUse& use) {
  Attempt* attempt = lifetimes_.FindAttempt(use.name, use.use);
  if (attempt == nullptr) return {};
  if (attempt->failed().has_value()) return {{rank.incarnation, *attempt->failed()}};
  const Attempt::Entry* entry = attempt->Find(use.tensor);
  if (entry == nullptr) return {};
  if (attempt->Contradicts(use.use.round, entry)) {
    attempt->Tell(rank.incarnation);
    return Fail(Mismatch(use.name, use.use, *attempt, rank, entry->first));
  }
  attempt->Mean(use.use.round, *entry, rank.number, rank.incarnation);
  return {};
}

Declarations::Answers Declarations::AskAbout(const Rank& rank, const std::string& name) {
  Answers answers;
  for (WaitCircles::Question& question : circles_.AddStuck(rank.number, name)) {
    answers.push_back({question.to, std::move(question.message)});
  }
  return answers;
}

bool Declarations::OnUnbegun(const Rank& rank, const wire::Unbegun& answer) {
  return circles_.OnUnbegun(rank.number, rank.incarnation, answer);
}

Declarations::Answers Declarations::JudgeStuck() {
  Answers answers;
  while (std::optional<WaitCircles::Mismatch> circle = circles_.Judge()) {
    Append(answers, FailAll(*circle));
  }
  return answers;
}

void Declarations::ForgetOverdue(const std::function<bool(uint64_t)>& gone) {
  circles_.ForgetIf(gone);
}

void Declarations::ForgetLost(const std::function<bool(uint64_t)>& gone) {
  ForgetOverdue(gone);
  std::vector<uint32_t> ranks;
  for (const auto& [rank, incarnation] : incarnations_) {
    if (gone(incarnation)) ranks.push_back(rank);
  }
  lifetimes_.ForEach([&](NameLifetime& lifetime) {
    for (Attempt& attempt : lifetime.attempts) {
      attempt.ForgetMeaningIf(gone);
      attempt.LetGoOfAll(ranks);
    }
  });
}

// A rank may let go of a tensor that is forgotten already. Its connection broke, so it did not hear
// that.
Declarations::Answers Declarations::OnLetGo(const Rank& rank, const wire::LetGo& let_go) {
  Note(rank);
  wire::Forgotten again;
  std::vector<TensorId> unheld;
  for (TensorId tensor : let_go.tensors) {
    const Lifetimes::Place* place = lifetimes_.Find(tensor);
    if (place == nullptr) {
      again.tensors.push_back(tensor);
      continue;
    }
    Attempt& attempt = place->lifetime->attempts[place->attempt];
    if (attempt.failed().has_value()) continue;  // the rank will hear of that
    attempt.LetGo(tensor, rank.number);
    if (rules_.MayForget(attempt.Find(tensor)->second.holders)) unheld.push_back(tensor);
  }
  Answers answers = Forget(unheld);
  if (!again.tensors.empty()) answers.push_back({rank.incarnation, std::move(again)});
  return answers;
}

// The attempts of these tensors have not failed. A lifetime is over when its last attempt has lost
// its last tensor.
Declarations::Answers Declarations::Forget(const std::vector<TensorId>& tensors) {
  if (tensors.empty()) return {};
  wire::Forgotten at_servers{tensors, {}};
  std::map<uint64_t, wire::Forgotten> at_workers;
  for (TensorId tensor : tensors) {
    const Lifetimes::Place* place = lifetimes_.Find(tensor);
    if (place == nullptr) continue;  // named twice, or with its lifetime
    NameLifetime* lifetime = place->lifetime;
    const Attempt& attempt = lifetime->attempts[place->attempt];
    const uint32_t number = place->attempt;
    lifetimes_.EraseTensor(tensor);
    dealer_.Forget(tensor);
    for (uint64_t worker : attempt.told()) at_workers[worker].tensors.push_back(tensor);
    if (!lifetime->IsOver()) continue;
    const wire::LifetimeNumber known{lifetime->name, lifetime->process_set, lifetime->number};
    circles_.ForgetUses(known.name, {known.process_set, number, 0, known.number});
    const std::set<uint64_t> others = ToldOfFailuresWith(*lifetime);
    Lifetimes::Over over = lifetimes_.Erase(*lifetime);
    over.told.insert(others.begin(), others.end());
    for (TensorId earlier : over.tensors) {
      dealer_.Forget(earlier);
      at_servers.tensors.push_back(earlier);
    }
    for (uint64_t worker : over.told) {
      wire::Forgotten& word = at_workers[worker];
      word.tensors.insert(word.tensors.end(), over.tensors.begin(), over.tensors.end());
      word.lifetimes.push_back(known);
    }
  }
  Answers answers;
  answers.push_back({kServers, std::move(at_servers)});
  for (auto& [worker, forgotten] : at_workers) AppendInParts(answers, worker, forgotten);
  return answers;
}

// A failure of this lifetime is one with failures of other lifetimes, which name this lifetime. The
// workers that were told of those must not tell a restarted coordinator of this lifetime any more.
std::set<uint64_t> Declarations::ToldOfFailuresWith(const NameLifetime& lifetime) {
  std::set<uint64_t> told;
  for (const Attempt& attempt : lifetime.attempts) {
    if (!attempt.failed().has_value()) continue;
    for (const wire::NamedUse& also : attempt.failed()->also) {
      const Attempt* other = lifetimes_.FindAttempt(also.name, also.use);
      if (other != nullptr) told.insert(other->told().begin(), other->told().end());
    }
  }
  return told;
}

std::map<TensorId, std::string> Declarations::NamesOf(const std::vector<TensorId>& tensors) const {
  std::map<TensorId, std::string> names;
  for (TensorId tensor : tensors) {
    const Lifetimes::Place* place = lifetimes_.Find(tensor);
    if (place != nullptr) names[tensor] = place->lifetime->name;
  }
  return names;
}

}  // namespace byteps::protocol
