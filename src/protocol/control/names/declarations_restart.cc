// The part of Declarations for a coordinator that has lost its memory: it takes what workers know,
// and tells servers and workers that come later what they must hear.
#include <algorithm>
#include <iterator>
#include <utility>

#include "src/protocol/control/names/declarations.h"

namespace byteps::protocol {
namespace {

// No program makes so many attempts at one name.
constexpr uint32_t kAttemptsKnownMax = 4096;

}  // namespace

// Returns the lifetime that a rank knows from an earlier coordinator; null: it is over, and the
// rank hears so. If there are two lifetimes with one name, the earlier one is over, because the
// later one could not have begun before that.
NameLifetime* Declarations::Meet(const Rank& rank, const wire::LifetimeNumber& known,
                                 Answers& answers) {
  NameLifetime* lifetime = lifetimes_.Find(known.name, known.process_set);
  if (lifetime == nullptr) return &lifetimes_.Begin(known.name, known.process_set, known.number);
  if (lifetime->number == known.number) return lifetime;
  if (lifetime->number > known.number) {
    answers.push_back({rank.incarnation, wire::Forgotten{{}, {known}}});
    return nullptr;
  }
  const wire::LifetimeNumber earlier{known.name, known.process_set, lifetime->number};
  const Lifetimes::Over over = lifetimes_.Erase(*lifetime);
  for (TensorId tensor : over.tensors) dealer_.Forget(tensor);
  answers.push_back({kServers, wire::Forgotten{over.tensors, {}}});
  for (uint64_t worker : over.told) {
    answers.push_back({worker, wire::Forgotten{over.tensors, {earlier}}});
  }
  return &lifetimes_.Begin(known.name, known.process_set, known.number);
}

// If ranks know two tensors for one spec, the earlier one is over, too. Returns true if `known` is
// the earlier one.
bool Declarations::IsReplaced(const Rank& rank, const NameLifetime& lifetime,
                              const wire::KnownTensor& known, Answers& answers) {
  const wire::Declared& declared = known.declared;
  if (declared.attempt >= lifetime.attempts.size()) return false;
  const Attempt& attempt = lifetime.attempts[declared.attempt];
  const Attempt::Entry* entry = attempt.Find(known.spec);
  if (entry == nullptr || entry->second.tensor == declared.tensor) return false;
  const TensorId earlier = std::min(entry->second.tensor, declared.tensor);
  const wire::Forgotten over{{earlier}, {}};
  if (earlier == declared.tensor) {
    answers.push_back({rank.incarnation, over});
    return true;
  }
  for (uint64_t worker : attempt.told()) answers.push_back({worker, over});
  answers.push_back({kServers, over});
  lifetimes_.EraseTensor(earlier);
  dealer_.Forget(earlier);
  return false;
}

Declarations::Answers Declarations::OnKnown(const Rank& rank, const wire::Known& known) {
  Note(rank);
  Answers answers;
  for (const wire::KnownTensor& one : known.tensors) {
    const wire::Declared& declared = one.declared;
    dealer_.Hear(declared.tensor);
    if (declared.attempt >= kAttemptsKnownMax) continue;
    NameLifetime* lifetime =
        Meet(rank, {declared.name, declared.process_set, declared.lifetime}, answers);
    const bool is_over =
        lifetime == nullptr || IsReplaced(rank, *lifetime, {declared, one.spec}, answers);
    if (is_over) {
      dealer_.Forget(declared.tensor);
      answers.push_back({kServers, wire::Forgotten{{declared.tensor}, {}}});
      continue;
    }
    const Attempt::Entry& entry = lifetimes_.Add(*lifetime, declared.attempt, one.spec,
                                                 {declared.tensor, declared.placement});
    Attempt& attempt = lifetime->attempts[declared.attempt];
    attempt.Tell(rank.incarnation);
    if (!one.let_go) attempt.Hold(entry.second.tensor, rank.number);
    if (attempt.failed().has_value()) answers.push_back({rank.incarnation, *attempt.failed()});
  }
  for (const wire::DeclareFailed& failed : known.failed) {
    // A failure in one process set is also one in the others that it names. Perhaps no worker is
    // left that was told of those.
    const wire::NamedUse itself = {failed.name, failed.use};
    std::vector<wire::NamedUse> uses = failed.also;
    uses.push_back(itself);
    for (const wire::NamedUse& one : uses) {
      if (one.use.attempt >= kAttemptsKnownMax) continue;
      NameLifetime* lifetime =
          Meet(rank, {one.name, one.use.process_set, one.use.lifetime}, answers);
      if (lifetime == nullptr) continue;
      Attempt& attempt = Lifetimes::At(*lifetime, one.use.attempt);
      if (attempt.failed().has_value()) continue;
      wire::DeclareFailed here = failed;
      here.name = one.name;
      here.use = one.use;
      here.also = uses;
      std::erase(here.also, one);
      for (TensorId tensor : one == itself ? failed.tensors : std::vector<TensorId>()) {
        attempt.Retire(tensor);
      }
      std::ranges::move(Fail(std::move(here)), std::back_inserter(answers));
    }
  }
  return answers;
}

Status Declarations::OnAllKnown() {
  const Attempt::Entry* last = nullptr;
  lifetimes_.ForEach([&](NameLifetime& lifetime) {
    for (uint32_t i = 0; i < lifetime.attempts.size(); ++i) {
      Attempt& attempt = lifetime.attempts[i];
      // The workers that could have told of this attempt are gone; others went on from it.
      bool unknown = attempt.variants().empty() && !attempt.failed().has_value();
      if (unknown && i + 1 < lifetime.attempts.size()) {
        wire::DeclareFailed failed{lifetime.name,
                                   {lifetime.process_set, i, 1, lifetime.number},
                                   {},
                                   StatusCode::kMismatch,
                                   "",
                                   {}};
        failed.text =
            "an earlier declaration of tensor '" + lifetime.name + "' failed; use it again";
        static_cast<void>(attempt.Fail(std::move(failed)));
      }
      for (const Attempt::Entry& one : attempt.variants()) {
        if (last == nullptr || one.second.tensor > last->second.tensor) last = &one;
      }
    }
  });
  return dealer_.GoOnAfter(last);
}

Declarations::Answers Declarations::StillKnown(uint64_t to) const {
  Answers answers;
  for (wire::StillKnown& part : dealer_.StillKnown()) answers.push_back({to, std::move(part)});
  return answers;
}

Declarations::Answers Declarations::ForServer(uint64_t server) const {
  Answers answers = StillKnown(server);
  lifetimes_.ForEach([&](const NameLifetime& lifetime) {
    for (const Attempt& attempt : lifetime.attempts) {
      bool holds = attempt.failed().has_value() && !attempt.failed()->tensors.empty();
      if (holds) answers.push_back({server, *attempt.failed()});
    }
  });
  return answers;
}

Declarations::Answers Declarations::FailedForWorker(uint64_t worker) const {
  Answers answers;
  lifetimes_.ForEach([&](const NameLifetime& lifetime) {
    for (const Attempt& attempt : lifetime.attempts) {
      bool told = attempt.failed().has_value() && attempt.told().contains(worker);
      if (told) answers.push_back({worker, *attempt.failed()});
    }
  });
  return answers;
}

}  // namespace byteps::protocol
