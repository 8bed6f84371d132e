// The names of operations that are open on this rank: a second operation of one of them is refused
// before anything of it is accepted.
//
// Thread-safe.
#pragma once

#include <string>
#include <unordered_map>

#include "src/base/status.h"
#include "src/base/thread_annotations.h"
#include "src/wire/control.h"

namespace byteps::session {

class OpenNames {
 public:
  // A name while it is taken.
  using Taken = const std::string*;

  // Takes `name` for an operation of this kind. kDuplicateName while another one has it.
  Result<Taken> Take(const std::string& name, const wire::TensorSpec& spec);
  // The operation that had it has ended, or was not accepted after all. Needs no memory.
  void GiveBack(Taken name);

 private:
  Mutex mutex_;
  std::unordered_map<std::string, wire::TensorSpec> taken_ BYTEPS_GUARDED_BY(mutex_);
};

}  // namespace byteps::session
