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

// Starts an operation of which `ending` hears, as byteps_start does. If it is refused, `ending`
// hears nothing.
inline byteps_code StartFor(const std::shared_ptr<Ending>& ending, byteps_session* session,
                            byteps_request request, byteps_handle* handle, byteps_error* error) {
  struct Awaited {
    byteps_session* session;
    std::shared_ptr<Ending> ending;

    static void Complete(void* context, byteps_handle handle, byteps_code code) noexcept {
      const std::unique_ptr<Awaited> awaited(static_cast<Awaited*>(context));
      awaited->ending->Ended(awaited->session, handle, code);
      byteps_release(awaited->session, handle);
    }
  };
  auto awaited = std::make_unique<Awaited>(Awaited{session, ending});
  request.on_complete = &Awaited::Complete;
  request.context = awaited.get();
  const byteps_code code = byteps_start(session, &request, handle, error);
  if (code != BYTEPS_OK) return code;
  awaited.release();  // Complete deletes it
  ending->Accepted();
  return code;
}

}  // namespace byteps::python
