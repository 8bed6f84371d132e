#pragma once

#include <memory>

#include "byteps/byteps.h"

namespace byteps::python {

// Hears how an operation ended for which no Python code waits. A framework's call implements it.
// Shared: by the session until it is over, and by Python as long as it looks at the call.
class Ending : public std::enable_shared_from_this<Ending> {
 public:
  Ending() = default;
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;
  virtual ~Ending() = default;

  // The session has accepted the operation: Ended comes, on a thread of the library, perhaps before
  // this returns.
  virtual void Accepted() = 0;

  // The operation is over. Does not block and takes no interpreter lock. The handle is released
  // after it: what it wants of the result it copies.
  virtual void Ended(byteps_session* session, byteps_handle handle, byteps_code code) = 0;
};

}  // namespace byteps::python
