#include "src/session/open_names.h"

#include "src/operations/row.h"

namespace byteps::session {

Result<OpenNames::Taken> OpenNames::Take(const std::string& name, const wire::TensorSpec& spec) {
  MutexLock lock(mutex_);
  auto [holder, is_new] = taken_.try_emplace(name, spec);
  if (is_new) return &holder->first;
  return Status(StatusCode::kDuplicateName,
                "tensor '" + name + "' is already in flight, with " +
                    operations::Describe(holder->second) +
                    "; wait for it, or give the second one another name");
}

void OpenNames::GiveBack(Taken name) {
  MutexLock lock(mutex_);
  taken_.erase(taken_.find(*name));
}

}  // namespace byteps::session
