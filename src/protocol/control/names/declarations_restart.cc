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

// Returns the course that a rank knows from an earlier coordinator; null: it is over, and the rank
// hears so. If there are two courses with one name, the earlier one is over, because the later one
// could not have begun before that.
NameCourse* Declarations::Meet(const Rank& rank, const wire::CourseNumber& known,
                               Answers& answers) {
  NameCourse* course = courses_.Find(known.name, known.process_set);
  if (course == nullptr) return &courses_.Begin(known.name, known.process_set, known.number);
  if (course->number == known.number) return course;
  if (course->number > known.number) {
    answers.push_back({rank.incarnation, wire::Forgotten{{}, {known}}});
    return nullptr;
  }
  const wire::CourseNumber earlier{known.name, known.process_set, course->number};
  const Courses::Over over = courses_.Erase(*course);
  for (TensorId tensor : over.tensors) dealer_.Forget(tensor);
  answers.push_back({kServers, wire::Forgotten{over.tensors, {}}});
  for (uint64_t worker : over.told) {
    answers.push_back({worker, wire::Forgotten{over.tensors, {earlier}}});
  }
  return &courses_.Begin(known.name, known.process_set, known.number);
}

// If ranks know two tensors for one spec, the earlier one is over, too. Returns true if `known` is
// the earlier one.
bool Declarations::IsReplaced(const Rank& rank, const NameCourse& course,
                              const wire::KnownTensor& known, Answers& answers) {
  const wire::Declared& declared = known.declared;
  if (declared.attempt >= course.attempts.size()) return false;
  const Attempt& attempt = course.attempts[declared.attempt];
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
  courses_.EraseTensor(earlier);
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
    NameCourse* course =
        Meet(rank, {declared.name, declared.process_set, declared.course}, answers);
    const bool is_over =
        course == nullptr || IsReplaced(rank, *course, {declared, one.spec}, answers);
    if (is_over) {
      dealer_.Forget(declared.tensor);
      answers.push_back({kServers, wire::Forgotten{{declared.tensor}, {}}});
      continue;
    }
    const Attempt::Entry& entry =
        courses_.Add(*course, declared.attempt, one.spec, {declared.tensor, declared.placement});
    Attempt& attempt = course->attempts[declared.attempt];
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
      NameCourse* course = Meet(rank, {one.name, one.use.process_set, one.use.course}, answers);
      if (course == nullptr) continue;
      Attempt& attempt = Courses::At(*course, one.use.attempt);
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
  courses_.ForEach([&](NameCourse& course) {
    for (uint32_t i = 0; i < course.attempts.size(); ++i) {
      Attempt& attempt = course.attempts[i];
      // The workers that could have told of this attempt are gone; others went on from it.
      bool unknown = attempt.variants().empty() && !attempt.failed().has_value();
      if (unknown && i + 1 < course.attempts.size()) {
        wire::DeclareFailed failed{course.name, {course.process_set, i, 1, course.number},
                                   {},          StatusCode::kMismatch,
                                   "",          {}};
        failed.text = "an earlier declaration of tensor '" + course.name + "' failed; use it again";
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
  courses_.ForEach([&](const NameCourse& course) {
    for (const Attempt& attempt : course.attempts) {
      bool holds = attempt.failed().has_value() && !attempt.failed()->tensors.empty();
      if (holds) answers.push_back({server, *attempt.failed()});
    }
  });
  return answers;
}

Declarations::Answers Declarations::FailedForWorker(uint64_t worker) const {
  Answers answers;
  courses_.ForEach([&](const NameCourse& course) {
    for (const Attempt& attempt : course.attempts) {
      bool told = attempt.failed().has_value() && attempt.told().contains(worker);
      if (told) answers.push_back({worker, *attempt.failed()});
    }
  });
  return answers;
}

}  // namespace byteps::protocol
